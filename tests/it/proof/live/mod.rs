//! Live histories: server processes over one Postgres, clients that keep a record of every call, and
//! something that does harm. In the end every key is brought to its end, and every history judged.

mod audit;
mod audit_judged;
mod audit_many;
mod client;
mod clocks;
mod conservation;
mod deaths;
mod failover;
mod harm;
mod hold;
mod inbox;
mod judge;
mod marks;
mod mesh;
mod operator;
mod overload;
mod pauses;
mod points;
mod policies;
mod policies_after;
mod policies_judged;
mod policy_costs;
mod pooled;
mod proxy;
mod replays;
mod replicas;
mod scene;
mod soak;
mod suites;
mod versions;
mod versions_of_runs;
mod world;
