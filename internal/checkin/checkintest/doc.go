// Package checkintest has what the tests of check-in's packages share: a clock, a Redis that is complete, and a log of
// check-ins in SQL, without the service that writes it.
package checkintest
