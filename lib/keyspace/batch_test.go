package keyspace_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// run is one of the two ways to run a batch.
type run struct {
	name string
	run  func(*keyspace.Batch, context.Context, keyspace.Executor) error
}

var runs = []run{{"pipeline", (*keyspace.Batch).Run}, {"transaction", (*keyspace.Batch).RunAtomic}}

func TestBatch_FillsInResults(t *testing.T) {
	for _, e := range []redistest.Engine{redistest.SharedEngines(t)[0], redistest.SharedEngines(t)[2], redistest.SharedEngines(t)[4]} {
		for i, r := range runs {
			t.Run(e.Name+" "+r.name, func(t *testing.T) {
				db, ctx := e.Open(t), t.Context()
				n := keyspace.Int{N: int64(i)}
				s, s2, once := vSet.At(n, one), vSet.At(n, two), vOnce.At(n, one)
				var b keyspace.Batch
				// The first run loads the scripts into the server, which would otherwise run after the other commands.
				for _, cmd := range []keyspace.Cmd{s.AddCmd("x"), s.MoveCmd(s2, "x"), s2.DeleteCmd()} {
					b.Do(cmd)
					if err := r.run(&b, ctx, db); err != nil {
						t.Fatal(err)
					}
				}
				none := b.Text(vBytes.At(n, one).GetCmd())
				vJSON.At(n, one).SetIn(&b, []int{1, 2})
				json := vJSON.At(n, one).GetIn(&b)
				count := b.Int(vCount.At(n, one).AddCmd(5))
				added := b.Bool(s.AddCmd("a"))
				again := b.Bool(s.AddCmd("a"))
				nx := b.Bool(vBytes.At(n, two).AddCmd("v"))
				nxAgain := b.Bool(vBytes.At(n, two).AddCmd("v"))
				score := b.Float(vZSet.At(n, one).AddCmd("m", 1.5))
				b.Do(vHash.At(n, one).SetSomeCmd(map[string]string{"f": "1", "g": "2"}))
				fields := b.Map(vHash.At(n, one).AllCmd())
				top := b.Scores(vZSet.At(n, one).TopCmd(3))
				moved := b.Bool(s.MoveCmd(once, "a"))
				left := b.Texts(s.AllCmd())
				some := b.Texts(once.UnionCmd(s))
				b.Do(vStream.At(n, one).AddCmd(0, "k", "v"))
				entries := b.Entries(vStream.At(n, one).RangeCmd("-", "+", 5))
				wrong := b.Int(vHash.At(n, one).AddCmd("g", 1))
				bad := b.Int(keyspace.Cmd{Name: "LLEN", Key: s2.Key})
				if _, ok, err := count.Get(); ok || err == nil || count.Value() != 0 {
					t.Errorf("before the batch ran: %v, %v", ok, err)
				}
				if b.Len() != 19 {
					t.Errorf("%d commands, want 19", b.Len())
				}
				if err := r.run(&b, ctx, db); err != nil {
					t.Fatal(err)
				}
				if _, ok, err := none.Get(); ok || err != nil {
					t.Errorf("a missing key: %v, %v", ok, err)
				}
				got := fmt.Sprint(json.Value(), count.Value(), added.Value(), again.Value(), nx.Value(), nxAgain.Value(), score.Value(), fields.Value(),
					top.Value(), moved.Value(), left.Value(), some.Value(), len(entries.Value()), entries.Value()[0].Fields, wrong.Value(), bad.Value())
				if want := "[1 2] 5 true false true false 1.5 map[f:1 g:2] [{m 1.5}] true [] [a] 1 map[k:v] 3 0"; got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
				for _, k := range []keyspace.Key{vCount.At(n, one).Key, vZSet.At(n, one).Key, vHash.At(n, one).Key, once.Key, vJSON.At(n, one).Key} {
					if left, ok, err := k.Left(ctx, db); left <= 0 || !ok || err != nil {
						t.Errorf("%s has %v, %v, %v left, want an hour", k, left, ok, err)
					}
				}

				// A write does not renew a window, and a command that fails does not stop the others.
				db.Do(ctx, keyspace.Cmd{Name: "PEXPIRE", Key: once.Key, Args: []string{"60000"}})
				fails, runs := b.Int(vHash.At(n, one).AddCmd("f", 1)), b.Int(once.AddCmd("b"))
				b.Do(vHash.At(n, one).SetCmd("f", "text"))
				fails2, shape := b.Int(vHash.At(n, one).AddCmd("f", 1)), b.Texts(vCount.At(n, one).GetCmd())
				err := r.run(&b, ctx, db)
				if _, server := errors.AsType[redis.ServerError](err); !server || !errors.Is(err, keyspace.ErrReply) ||
					!strings.Contains(err.Error(), "command 4 of a batch, of hash:{{n}}:{c}: ") || strings.Contains(err.Error(), "command 1 ") {
					t.Errorf("got %v, want the server's error of command 4 and the shape of 5", err)
				}
				if fails.Value() != 2 || runs.Value() != 1 {
					t.Errorf("the other commands: %d, %d; want 2, 1", fails.Value(), runs.Value())
				}
				if v, ok, err := fails2.Get(); v != 0 || ok || err == nil {
					t.Errorf("the failed command: %d, %v, %v", v, ok, err)
				}
				if _, ok, err := shape.Get(); ok || !errors.Is(err, keyspace.ErrReply) {
					t.Errorf("a reply of another kind: %v, %v", ok, err)
				}
				if left, _, err := once.Left(ctx, db); left > time.Minute || err != nil {
					t.Errorf("a window of a minute has %v, %v left", left, err)
				}
				if err := r.run(&b, ctx, db); err != nil || b.Len() != 0 {
					t.Errorf("an empty batch: %v", err)
				}
				b.Do(keyspace.Cmd{Name: "SADD", Key: vCount.At(n, one).Key, Args: []string{"x"}})
				if err := r.run(&b, ctx, db); !errors.Is(err, keyspace.ErrType) {
					t.Errorf("a command of another type: %v", err)
				}
				redistest.KeysDeclared(t, db, values)
			})
		}
	}
}

func TestBatch_InvalidTransactionRefusedAsWhole(t *testing.T) {
	db, ctx := redistest.OpenConfig(t, redistest.Shared(t)), t.Context()
	n := keyspace.Int{N: 9}
	fine := vSet.At(n, one)
	for _, c := range []struct {
		cmd  keyspace.Cmd
		want error
		text string
	}{
		{vSet.At(keyspace.Int{N: 10}, one).AddCmd("x"), keyspace.ErrCrossSlot, "set:{9}:one and set:{10}:one"},
		{fine.UnionCmd(vSet.At(keyspace.Int{N: 10}, one)), keyspace.ErrCrossSlot, "set:{10}:one"},
		{keyspace.Cmd{Name: keyspace.ScriptName("return 1"), Key: fine.Key}, nil, "command 2 of a transaction, of set:{{n}}:{c} is a script"},
		{keyspace.Cmd{Name: "PING"}, nil, "command 2 of a transaction is a script, a function, or has no key"},
		{keyspace.Cmd{Name: keyspace.FunctionMark + "f", Key: fine.Key}, nil,
			"command 2 of a transaction, of set:{{n}}:{c} is a script, a function"},
		{keyspace.Cmd{Name: "ZADD", Key: fine.Key, Args: []string{"1", "x"}}, keyspace.ErrType, ""},
		{fine.AddCmd(make([]string, 8000)...), nil, "command 2 of a transaction, of set:{{n}}:{c} has 8001 keys and arguments, more than 5000"},
	} {
		var b keyspace.Batch
		added := b.Int(fine.AddCmd("x"))
		b.Do(c.cmd)
		err := b.RunAtomic(ctx, db)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got %v, want %v", c.cmd.Name, err, c.want)
		}
		if _, _, future := added.Get(); future == nil || future.Error() != err.Error() {
			t.Errorf("the future has %v, want %v", future, err)
		}
		if there, err := fine.Exists(ctx, db); there || err != nil {
			t.Fatalf("%s: a part of the batch ran", c.cmd.Name)
		}
	}
	closed := redistest.OpenConfig(t, redistest.Shared(t))
	closed.Close()
	for _, r := range runs {
		var b keyspace.Batch
		added := b.Int(fine.AddCmd("x"))
		if err := r.run(&b, ctx, closed); !errors.Is(err, redis.ErrUnavailable) {
			t.Errorf("%s without a Redis: %v", r.name, err)
		}
		if _, ok, err := added.Get(); ok || !errors.Is(err, redis.ErrUnavailable) {
			t.Errorf("%s without a Redis: %v, %v", r.name, ok, err)
		}
	}
}

// A transaction runs the largest command that it accepts, on each engine.
func TestBatch_RunAtomicRunsLargestCommand(t *testing.T) {
	for _, e := range []redistest.Engine{redistest.SharedEngines(t)[0], redistest.SharedEngines(t)[2]} {
		t.Run(e.Name, func(t *testing.T) {
			db, ctx := e.Open(t), t.Context()
			s, members := vSet.At(keyspace.Int{N: 11}, one), make([]string, 4999)
			for i := range members {
				members[i] = fmt.Sprint(i)
			}
			var b keyspace.Batch
			added := b.Int(s.AddCmd(members...))
			if err := b.RunAtomic(ctx, db); err != nil || added.Value() != 4999 {
				t.Errorf("%d, %v; want 4999", added.Value(), err)
			}
		})
	}
}

func ExampleBatch() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	rulesKey.At(chess).Set(ctx, db, map[string]int{"minutes": 5})

	var b keyspace.Batch
	rules := rulesKey.At(chess).GetIn(&b)
	moves := b.Int(movesKey.At(chess).AddCmd(1))
	title := b.Text(titleKey.At(chess).GetCmd())
	b.Do(playersKey.At(chess).AddCmd("ann"))
	if err := b.Run(ctx, db); err != nil { // one round trip
		fmt.Println(err)
	}
	show(rules.Value(), moves.Value())
	show(title.Get())
	// Output:
	// map[minutes:5] 1
	//  false <nil>
}

func ExampleBatch_RunAtomic() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	var b keyspace.Batch
	moves := b.Int(movesKey.At(chess).AddCmd(1))
	turn := b.Bool(stateKeys.At(chess).SetCmd("turn", "bob"))
	show(b.RunAtomic(ctx, db)) // no other client sees the move without the turn
	show(moves.Value(), turn.Value())

	b.Do(movesKey.At(chess).AddCmd(1))
	b.Do(movesKey.At(GameID{keyspace.Int{N: 8}}).AddCmd(1))
	show(b.RunAtomic(ctx, db))
	// Output:
	// <nil>
	// 1 true
	// keyspace: the keys of one transaction or script must share a hash tag: game:moves:{7} and game:moves:{8}
}
