/*
Package audit holds what a Redis contains against what a program declares with
package keyspace, without hurting the server.

	report, err := audit.Run(ctx, db, []*keyspace.Schema{accounts.Keys, shop.Keys}, audit.Options{})
	if err == nil && !report.Clean() {
		// report.Findings says what is wrong, report.Unknown what no family declares
	}

# What it looks at

Every name is parsed, always: keys of no family are counted, folded into shapes
("cart:{{id}}:{n}") and shown with examples. Of each family and each shape a
random sample is looked at as well: type, life, size, value, memory. From the
sample follows what the family occupies, with the error of that estimate. A
group that is not larger than its sample is known exactly.

With [Options].Full every key is looked at. [RunRDB] does the same to a dump file
and needs no server; there memory is an estimate.

A [Report] also has the number of keys of each owner and slot, and, where the
server evicts by frequency of use (an LFU policy), the keys used most.

# What it costs

One page of SCAN at a time, owner after owner, over connections of its own. A
PING beside it, every 20 ms, tells how long other clients wait; when that is too
long the pages come slower ([Options].MaxPing). [Options].Rate bounds them in any
case. Nothing is written, and nothing is read but by commands whose cost is
bounded: of a value at most a mebibyte.

SCAN tells of every key that is there all the while. One that comes or goes
meanwhile may be missed, and a key may be counted twice while the server grows or
shrinks its table.

# Sweeping

[Sweep] removes all keys of one deployment's prefix, for instance of a test
environment that is gone.
*/
package audit
