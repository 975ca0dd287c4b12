-- What the consumer of this example writes: an effect that nothing but the guard keeps from happening twice.
CREATE TABLE payments (
    receipt char(36)     NOT NULL PRIMARY KEY,
    source  varchar(256) NOT NULL,
    id      varchar(512) NOT NULL,
    amount  integer      NOT NULL
);
