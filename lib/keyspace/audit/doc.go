/*
Package audit compares the content of a Redis with the declarations of a program
in package keyspace, without slowing the server down.

	report, err := audit.Run(ctx, db, []*keyspace.Schema{accounts.Keys, shop.Keys}, audit.Options{})
	if err == nil && !report.Clean() {
		// report.Findings has the faults, report.Unknown the keys that no family declares
	}

# What it checks

It always parses every name. Keys of no family are counted, grouped by shape
("cart:{{id}}:{n}") and reported with examples. From each family and each shape it
also inspects a random sample: type, TTL, size, value, memory. The sample gives an
estimate of the family's memory, with the error of the estimate. If a group is not
larger than its sample, its figures are exact.

With [Options].Full it inspects every key. [RunRDB] does the same with a dump file
and needs no server; memory is then an estimate.

A [Report] also has the number of keys of each owner and slot. If the server evicts
keys by frequency of use (an LFU policy), it has the most used keys as well.

# What it costs

It reads one page of SCAN at a time, owner after owner, over its own connections. A
PING in parallel, every 20 ms, measures how long other clients wait. If that is too
long, the pages come more slowly ([Options].MaxPing). [Options].Rate limits them in
any case. An audit writes nothing, and it only uses read commands with bounded
cost: it reads at most one mebibyte of a value.

SCAN returns every key that exists during the whole scan. It may miss keys that are
created or deleted during the scan, and it may return a key twice while the server
resizes its table.

# Sweeping

[Sweep] removes all keys under the prefix of one deployment, for example of a test
environment that no longer exists.
*/
package audit
