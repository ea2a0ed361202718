package keyspace

import (
	"context"
	"fmt"
	"strconv"

	"github.com/stoa-dev/stoa/lib/keyspace/internal/commands"
)

// Geo is a sorted set of members with a place on earth each.
type Geo struct{ Key }

// GeoOf is the [Kind] of [Geo]; form names the members for the catalogue.
func GeoOf(form literal) Kind[Geo] {
	return Kind[Geo]{typ: "zset", form: commands.GeoForm + string(form), bind: func(k Key) Geo { return Geo{k} }}
}

// Point is a place on earth in degrees: latitude from -85.05 to 85.05, north is positive,
// and longitude from -180 to 180, east is positive. Redis keeps it to within half a metre.
type Point struct{ Lat, Lon float64 }

// SetCmd puts a member in or moves it; the reply is 1 when it is new.
func (h Geo) SetCmd(member string, at Point) Cmd {
	return h.write("GEOADD", floatText(at.Lon), floatText(at.Lat), member)
}

// Set puts a member in or moves it, and reports whether it is new.
func (h Geo) Set(ctx context.Context, db Executor, member string, at Point) (bool, error) {
	return db.Do(ctx, h.SetCmd(member, at)).Bool()
}

// AtCmd asks where a member is; the reply is a list of one pair of longitude and latitude,
// or of nil.
func (h Geo) AtCmd(member string) Cmd { return h.ask("GEOPOS", member) }

// At returns where a member is; ok is false when it is not there.
func (h Geo) At(ctx context.Context, db Executor, member string) (at Point, ok bool, err error) {
	items, err := db.Do(ctx, h.AtCmd(member)).Items()
	if err != nil || len(items) == 0 || items[0].Nil() {
		return Point{}, false, err
	}
	pair, err := items[0].Items()
	if err != nil {
		return Point{}, false, err
	}
	if len(pair) != 2 {
		return Point{}, false, fmt.Errorf("%w: no longitude and latitude", ErrReply)
	}
	if at.Lon, _, err = pair[0].Float(); err != nil {
		return Point{}, false, err
	}
	at.Lat, ok, err = pair[1].Float()
	return at, ok, err
}

// DistanceCmd asks for the distance between two members in metres; the reply is nil when
// one is not there.
func (h Geo) DistanceCmd(one, other string) Cmd { return h.ask("GEODIST", one, other, "m") }

// Distance returns the distance between two members in metres; ok is false when one is
// not there.
func (h Geo) Distance(ctx context.Context, db Executor, one, other string) (metres float64, ok bool, err error) {
	return db.Do(ctx, h.DistanceCmd(one, other)).Float()
}

// NearCmd asks for up to n members within a radius in metres, the nearest first; the
// reply is a list of members and distances in pairs.
func (h Geo) NearCmd(at Point, metres float64, n int) Cmd {
	return h.ask("GEOSEARCH", "FROMLONLAT", floatText(at.Lon), floatText(at.Lat), "BYRADIUS", floatText(metres), "m",
		"ASC", "COUNT", strconv.Itoa(n), "WITHDIST")
}

// Near returns up to n members, one at least, within a radius in metres, the nearest
// first; scores are distances in metres. It needs Redis 6.2, and the embedded server
// lacks it.
func (h Geo) Near(ctx context.Context, db Executor, at Point, metres float64, n int) ([]Scored, error) {
	return db.Do(ctx, h.NearCmd(at, metres, n)).Scores()
}

// RemoveCmd takes members out; the reply is how many were there.
func (h Geo) RemoveCmd(members ...string) Cmd { return ZSet(h).RemoveCmd(members...) }

// Remove takes members out and returns how many were there.
func (h Geo) Remove(ctx context.Context, db Executor, members ...string) (int64, error) {
	return ZSet(h).Remove(ctx, db, members...)
}

// LenCmd asks how many members there are.
func (h Geo) LenCmd() Cmd { return ZSet(h).LenCmd() }

// Len returns how many members there are.
func (h Geo) Len(ctx context.Context, db Executor) (int64, error) { return ZSet(h).Len(ctx, db) }
