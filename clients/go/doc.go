// Package ledger is a client of the idempotency ledger: each message of a broker, and each request, is processed once.
//
// [Process] is the whole API for most programs: it claims the message, runs the handler where the claim is granted, renews
// the lease meanwhile, settles, and says by Outcome.Advice what to do with the broker's message. [Ledger.Begin] is there for
// programs that settle by themselves, package ledgerhttp for requests with the header Idempotency-Key, package guard for
// effects in a SQL database, and package ledgerv1 has the generated messages.
//
// A handler says how its attempt ended by the error that it returns: nil, [ErrRetry], [ErrTerminal], [ErrPark],
// [ErrDoubtful] or [ErrGiveBack], or [Retry] and so on with a reason for operators. Any other error means that it is unknown
// whether the effect happened: the message is parked for a person, unless Options.Unexpected says otherwise.
//
// Each try of a call has 5 seconds; a Claim is repeated for 10 seconds, besides its wait, and a settlement for 20. Spans and
// the metric idempotency_ledger.client.process.duration are made by the API of OpenTelemetry, where the application has set
// its providers.
package ledger
