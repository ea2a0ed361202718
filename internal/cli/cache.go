package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/background/drops"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/inspect"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/catalogue"
	keycli "github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
	"github.com/stoa-dev/stoa/lib/redis"
)

// cacheCmd has the commands about the servers' caches.
type cacheCmd struct {
	List   cacheListCmd   `cmd:"" settings:"addr" help:"List the caches of a running server: what they hold, how long, and how often they are hit."`
	Lookup cacheLookupCmd `cmd:"" settings:"redis,key_prefix,log" help:"Say what stands in Redis under a cached key."`
	Drop   cacheDropCmd   `cmd:"" settings:"data,sql,redis,key_prefix,log" help:"Have values forgotten, in Redis and on every server, as a change would."`
	Warm   cacheWarmCmd   `cmd:"" settings:"data,sql,redis,key_prefix,log" help:"Read the users who were active last into Redis."`
}

type cacheListCmd struct {
	settings
	Server string `env:"STOA_SERVER" placeholder:"URL" help:"The server to ask, by its admin_addr if it has one; else the one of the settings."`
}

// cacheLine is a cache in the command's JSON.
type cacheLine struct {
	Cache   string  `json:"cache"` // the cache's key family
	Life    string  `json:"life"`
	Entries int64   `json:"entries"`  // in the server's memory
	Process int64   `json:"process"`  // hits in the server's memory
	Redis   int64   `json:"redis"`    // hits in Redis
	Loads   int64   `json:"loads"`    // loads from the source
	Stale   int64   `json:"stale"`    // responses with a stale value
	Without int64   `json:"without"`  // reads that did not use Redis
	HitRate float64 `json:"hit_rate"` // hits in process and Redis as a share of hits and loads
}

// cacheList is the result of stoa cache list.
type cacheList struct {
	Caches []cacheLine `json:"caches"`
	Behind float64     `json:"behind_seconds"` // how long the server may have missed changes
	Open   float64     `json:"breakers_open"`
}

// askTime bounds a request to a server.
const askTime = 10 * time.Second

// Run reads the server's metrics.
func (cmd *cacheListCmd) Run(ctx context.Context, c *console) error {
	base, err := cmd.base(cmd.Server, func(cfg app.Config) string { return cmp.Or(cfg.AdminAddr, cfg.Addr) })
	if err != nil {
		return err
	}
	list, err := caches(ctx, base)
	if err != nil {
		return err
	}
	return c.result(list, func(w io.Writer) error {
		tab := keycli.NewTable(w, 3)
		fmt.Fprintln(tab, "CACHE\tLIFE\tENTRIES\tHITS\tPROCESS\tREDIS\tLOADS\tSTALE\tWITHOUT REDIS")
		for _, l := range list.Caches {
			rate := "–"
			if l.Process+l.Redis+l.Loads > 0 {
				rate = fmt.Sprintf("%.1f %%", 100*l.HitRate)
			}
			fmt.Fprintf(tab, "%s\t%s\t%d\t%s\t%d\t%d\t%d\t%d\t%d\n", l.Cache, l.Life, l.Entries, rate, l.Process, l.Redis, l.Loads, l.Stale,
				l.Without)
		}
		if err := tab.Flush(); err != nil {
			return err
		}
		if list.Open > 0 || list.Behind > 1 {
			fmt.Fprintf(c.err, "Redis does not answer this server: it may have missed changes for %.1f s, and asks SQL.\n", list.Behind)
		}
		return nil
	})
}

// caches reads the metrics of the server at base.
func caches(ctx context.Context, base string) (list cacheList, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", nil)
	if err != nil {
		return list, usage{err}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return list, fmt.Errorf("%w at %s: is it running?", client.ErrUnreachable, base)
	}
	defer resp.Body.Close()
	text := expfmt.NewTextParser(model.UTF8Validation)
	metrics, err := text.TextToMetricFamilies(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || metrics["stoa_cache_entries"] == nil {
		return list, fmt.Errorf("%s/metrics answers %s and tells of no caches: is it a Stoa server, and its admin_addr if it has one?", base,
			resp.Status)
	}
	// value sums the metric's values with these labels. The first label is the cache.
	value := func(name string, labels ...string) (sum float64) {
		for _, m := range metrics[name].GetMetric() {
			has := map[string]bool{}
			for _, l := range m.GetLabel() {
				has[l.GetValue()] = true
			}
			if !slices.ContainsFunc(labels, func(l string) bool { return !has[l] }) {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		return sum
	}
	list.Behind, list.Open = value("stoa_cache_behind_seconds"), value("stoa_cache_breakers_open")
	for _, m := range metrics["stoa_cache_entries"].GetMetric() {
		name := m.GetLabel()[0].GetValue()
		reads := func(result string) int64 { return int64(value("stoa_cache_reads_total", name, result)) }
		l := cacheLine{Cache: name, Entries: int64(m.GetGauge().GetValue()), Process: reads("process"), Redis: reads("redis"),
			Loads: reads("load"),
			Stale: reads("stale"), Without: int64(value("stoa_cache_fallbacks_total", name))}
		l.HitRate = float64(l.Process+l.Redis) / float64(max(1, l.Process+l.Redis+l.Loads))
		for _, e := range catalogue.New(app.Keys()...).Families {
			if e.Pattern == name && e.Type != "channel" {
				l.Life = e.Lives()
			}
		}
		list.Caches = append(list.Caches, l)
	}
	slices.SortFunc(list.Caches, func(a, b cacheLine) int { return cmp.Compare(a.Cache, b.Cache) })
	return list, nil
}

// beside is a node that serves no requests: it receives invalidations and can publish them.
type beside struct {
	redis  *redis.DB
	nodes  *bus.Bus
	caches *cache.Runtime
}

// patience is how long such a node waits for Redis, instead of a read's budget.
const patience = 3 * time.Second

// beside calls fn with such a node after the first response of Redis.
func (s *settings) beside(ctx context.Context, c *console, fn func(*beside) error) (err error) {
	cfg, _, err := s.load()
	if err != nil {
		return err
	}
	db, err := c.redisOf(cfg).Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	b := &beside{redis: db, nodes: events.NewBus(db, "cli-"+ids.New[beside]().String(), nil).Nodes()}
	b.caches = cache.NewRuntime(db, b.nodes, cache.Config{Budget: patience})
	running, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() { _ = b.nodes.Run(running, func() {}) })
	all.Go(func() { _ = b.caches.Run(running, func() {}) })
	first, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if b.nodes.Wait(first) != nil {
		return cmp.Or(ctx.Err(), fmt.Errorf("%w: the event log cannot be read", redis.ErrUnavailable))
	}
	return fn(b)
}

type cacheLookupCmd struct {
	settings
	Name string `arg:"" name:"key" help:"A cached key, such as user:info:ID, with the deployment's prefix or without."`
}

// slotView is the cache entry of a key in Redis, in the command's JSON.
type slotView struct {
	Key     string          `json:"key"` // without prefix
	Family  string          `json:"family"`
	Holds   inspect.Kind    `json:"holds"`
	State   string          `json:"state"` // in words
	Good    bool            `json:"good"`  // a server would return it
	TTL     int64           `json:"ttl_ms,omitempty"`
	Stored  *api.Time       `json:"stored,omitempty"`
	AgeMS   int64           `json:"age_ms,omitempty"`
	Soft    *api.Time       `json:"soft,omitempty"` // when the entry becomes stale
	Hard    *api.Time       `json:"hard,omitempty"` // when the entry expires
	TookUS  int64           `json:"load_us,omitempty"`
	Version string          `json:"version,omitempty"`
	Tags    []string        `json:"tags,omitempty"` // versions of the tags at the load
	Until   *api.Time       `json:"until,omitempty"`
	Changes int             `json:"changes,omitempty"`
	Value   json.RawMessage `json:"value,omitempty"`
}

// Run shows an entry. It writes nothing, except the first entry of the log if the log is empty.
func (cmd *cacheLookupCmd) Run(ctx context.Context, c *console) error {
	cfg, _, err := cmd.load()
	if err != nil {
		return err
	}
	key, err := cachedKey(cmd.Name, cfg.KeyPrefix)
	if err != nil {
		return err
	}
	if key.Family().Type != "string" {
		return usage{fmt.Errorf("%s is a %s: stoa keys explain tells what is there", key.Family().Pattern, key.Family().Type)}
	}
	return cmd.beside(ctx, c, func(b *beside) error {
		replies := b.redis.DoMulti(ctx, []keyspace.Cmd{{Name: "GET", Key: key}, {Name: "PTTL", Key: key}})
		text, _, err := replies[0].Text()
		if err != nil {
			return err
		}
		ttl, err := replies[1].Int()
		if err != nil {
			return err
		}
		v := viewSlot(key, inspect.Parse(text), b.nodes.Time(), inspect.EraOf(key.Family(), b.nodes.Era()))
		v.TTL = max(ttl, 0)
		return c.result(v, v.write)
	})
}

// viewSlot describes a slot at a time of the servers' clock, in an era.
func viewSlot(key keyspace.Key, s inspect.Slot, now time.Time, era uint64) *slotView {
	v := &slotView{Key: key.String(), Family: key.Family().Pattern, Holds: s.Kind, Changes: s.Changes}
	switch s.Kind {
	case inspect.Empty:
		v.State = "nothing: the next read loads it"
		return v
	case inspect.Unknown:
		v.State = "not readable by this version of the program: the next read loads it"
		return v
	case inspect.Fence:
		v.State = "changes are under way: reads ask the source, and store nothing"
		return v
	case inspect.Tag:
		v.State, v.Version, v.Good = "values stored under another version do not count", fmt.Sprintf("%016x", s.Version), true
		return v
	case inspect.Lease:
		v.Until = new(api.At(s.Until))
		v.State = "somebody is loading it"
		if !s.Until.After(now) {
			v.State = "somebody began to load it and never finished: the next read does"
		}
		if !s.Kept {
			return v
		}
		v.State += "; the value before answers if that takes long"
	}
	v.Stored, v.Soft, v.Hard = new(api.At(s.Stored)), new(api.At(s.Soft)), new(api.At(s.Hard))
	v.AgeMS, v.TookUS, v.Version = now.Sub(s.Stored).Milliseconds(), s.Took.Microseconds(), fmt.Sprintf("%016x", s.Version)
	for _, t := range s.Tags {
		v.Tags = append(v.Tags, fmt.Sprintf("%016x", t))
	}
	if !s.Missing {
		v.Value = json.RawMessage(s.Payload)
	}
	if s.Kind != inspect.Value {
		return v
	}
	switch {
	case s.Era != era:
		v.State = "from before a restart or failover of Redis: it does not count"
	case !s.Hard.After(now):
		v.State = "expired"
	case !s.Soft.After(now):
		v.State = "past its life: it answers only while the source fails or is slow"
	case s.Missing:
		v.State, v.Good = "good: there is no such thing", true
	default:
		v.State, v.Good = "good", true
	}
	return v
}

func (v *slotView) write(w io.Writer) error {
	tab := keycli.NewTable(w, 2)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(tab, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	line("key", "%s", v.Key)
	line("family", "%s", v.Family)
	line("holds", "%s", v.Holds)
	line("state", "%s", v.State)
	if v.TTL > 0 {
		line("expires", "in %s", (time.Duration(v.TTL) * time.Millisecond).Round(time.Second/10))
	}
	if v.Until != nil {
		line("lease", "until %s", v.Until.Local().Format(time.DateTime))
	}
	if v.Changes > 0 {
		line("changes", "%d", v.Changes)
	}
	if v.Stored != nil {
		line("stored", "%s, %s ago, loaded in %s", v.Stored.Local().Format(time.DateTime), time.Duration(v.AgeMS)*time.Millisecond,
			time.Duration(v.TookUS)*time.Microsecond)
		line("soft life", "until %s", v.Soft.Local().Format(time.DateTime))
		line("hard life", "until %s", v.Hard.Local().Format(time.DateTime))
	}
	if v.Version != "" {
		line("version", "%s", v.Version)
	}
	if len(v.Tags) > 0 {
		line("tags", "%s", strings.Join(v.Tags, " "))
	}
	if v.Value != nil {
		line("value", "%s", v.Value)
	}
	return tab.Flush()
}

// cachedKey returns the cached key of a name, with or without the prefix.
func cachedKey(name, prefix string) (keyspace.Key, error) {
	if logical, ok := keyspace.Logical(prefix, name); ok {
		name = logical
	}
	key, err := app.Cached().Key(name)
	if err != nil {
		return key, fmt.Errorf("%w: %w", errNothing, err)
	}
	return key, nil
}

type cacheDropCmd struct {
	settings
	Keys   []string `arg:"" optional:"" name:"key" help:"Cached keys, such as user:info:ID."`
	Tag    []string `placeholder:"KIND:ID" help:"All that belongs to a tag; may be given again."`
	Family string   `placeholder:"PATTERN" help:"All values of a cache, as stoa cache list names it."`
	Yes    bool     `help:"Do not ask before a whole family."`
}

func (cmd *cacheDropCmd) Validate() error {
	if len(cmd.Keys)+len(cmd.Tag) == 0 && cmd.Family == "" {
		return errors.New("name keys, or say --tag or --family")
	}
	return nil
}

// Run drops entries through Redis. If Redis is embedded in a server, it sends the drop to the server.
func (cmd *cacheDropCmd) Run(ctx context.Context, c *console) error {
	cfg, _, err := cmd.load()
	if err != nil {
		return err
	}
	m := drops.Drop{Tags: cmd.Tag, Family: cmd.Family, At: time.Now().UnixMilli()}
	for _, name := range cmd.Keys {
		key, err := cachedKey(name, cfg.KeyPrefix)
		if err != nil {
			return err
		}
		m.Keys = append(m.Keys, key.String())
	}
	for _, tag := range cmd.Tag {
		if _, ok := inspect.ParseTag(tag); !ok {
			return usage{fmt.Errorf("--tag: %q is not such as room:42", tag)}
		}
	}
	if cmd.Family != "" {
		if _, err := app.Cached().Family(cmd.Family); err != nil {
			return fmt.Errorf("%w: %w", errNothing, err)
		}
		if !cmd.Yes && (c.json || !isatty.IsTerminal(os.Stdin.Fd())) {
			return usage{errors.New("nobody can be asked here: --yes drops a whole family unasked")}
		}
	}
	if cfg.Redis == "embedded" || cfg.Redis == "spawn" {
		return cmd.request(ctx, c, m)
	}
	return cmd.beside(ctx, c, func(b *beside) error { return cmd.drop(ctx, c, b, m) })
}

// request enqueues the drop for the server whose process has the Redis.
func (cmd *cacheDropCmd) request(ctx context.Context, c *console, m drops.Drop) error {
	if err := cmd.agreed(c, ""); err != nil {
		return err
	}
	if err := cmd.database(ctx, c, func(db *sqldb.DB) error { return drops.Request(ctx, db, m) }); err != nil {
		return err
	}
	return c.result(map[string]any{"requested": m}, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, "Handed to the server, which drops it within a second or two where it runs.")
		return err
	})
}

func (cmd *cacheDropCmd) drop(ctx context.Context, c *console, b *beside, m drops.Drop) error {
	total := len(m.Keys) + len(m.Tags)
	if m.Family != "" {
		f, err := app.Cached().Family(m.Family)
		if err != nil {
			return err
		}
		bar := c.progress("count")
		err = app.Cached().Each(ctx, b.redis, f, func(keys []keyspace.Key) error {
			total += len(keys)
			bar.Show(0, 0, keycli.Count(int64(total), "key"))
			return nil
		})
		bar.End()
		if err != nil {
			return err
		}
	}
	if err := cmd.agreed(c, fmt.Sprintf(" (%s in Redis)", keycli.Count(int64(total), "key"))); err != nil {
		return err
	}
	bar := c.progress("drop")
	n, err := app.Cached().Do(ctx, b.redis, b.caches, m, func(done int) {
		bar.Show(int64(done), int64(total), keycli.Count(int64(done), "key"))
	})
	bar.End()
	if err != nil {
		return fmt.Errorf("%s dropped, then: %w", keycli.Count(int64(n), "key"), err)
	}
	return c.result(map[string]int{"dropped": n}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s dropped.\n", keycli.Count(int64(n), "key"))
		return err
	})
}

// agreed asks for confirmation before it drops a whole family.
func (cmd *cacheDropCmd) agreed(c *console, count string) error {
	if cmd.Family == "" || cmd.Yes {
		return nil
	}
	fmt.Fprintf(c.err, "Servers will ask SQL for every value of %s%s that is wanted again. Go on? [y/N] ", cmd.Family, count)
	return agreement(os.Stdin)
}

type cacheWarmCmd struct {
	settings
	Users int `default:"1000" help:"How many, the most recently active first; 1 to 100000."`
}

func (cmd *cacheWarmCmd) Validate() error {
	if cmd.Users < 1 || cmd.Users > app.MostWarm {
		return fmt.Errorf("--users is 1 to %d", app.MostWarm)
	}
	return nil
}

// Run loads users from SQL into Redis, where the servers find them.
func (cmd *cacheWarmCmd) Run(ctx context.Context, c *console) error {
	return cmd.beside(ctx, c, func(b *beside) error {
		return cmd.database(ctx, c, func(db *sqldb.DB) error {
			users := accounts.NewUsers(db, b.caches, cache.Policy{Entries: -1})
			bar := c.progress("warm")
			n, err := users.Warm(ctx, cmd.Users, func(done, total int) { bar.Show(int64(done), int64(total), keycli.Count(int64(done), "user")) })
			bar.End()
			if err != nil {
				return err
			}
			return c.result(map[string]int{"users": n}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s at hand in Redis.\n", keycli.Count(int64(n), "user"))
				return err
			})
		})
	})
}
