package keyspace

import (
	"context"
	"fmt"
	"strconv"

	"github.com/stoa-dev/stoa/lib/keyspace/internal/commands"
)

// Geo is a sorted set of members that each have a position on earth.
type Geo struct{ Key }

// GeoOf is the [Kind] of [Geo]; form describes the members in the catalogue.
func GeoOf(form literal) Kind[Geo] {
	return Kind[Geo]{typ: "zset", form: commands.GeoForm + string(form), bind: func(k Key) Geo { return Geo{k} }}
}

// Point is a position on earth in degrees. Latitude is from -85.05 to 85.05, north is positive; longitude is from -180
// to 180, east is positive. Redis stores it with a precision of half a metre.
type Point struct{ Lat, Lon float64 }

// SetCmd adds or moves a member; the reply is 1 if it is new.
func (h Geo) SetCmd(member string, at Point) Cmd {
	return h.write("GEOADD", floatText(at.Lon), floatText(at.Lat), member)
}

// Set adds or moves a member, and reports whether it is new.
func (h Geo) Set(ctx context.Context, db Executor, member string, at Point) (bool, error) {
	return db.Do(ctx, h.SetCmd(member, at)).Bool()
}

// AtCmd gets the position of a member. The reply is a list with one element: a pair of longitude and latitude, or nil.
func (h Geo) AtCmd(member string) Cmd { return h.plainCmd("GEOPOS", member) }

// At returns the position of a member; ok is false if the member does not exist.
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

// DistanceCmd gets the distance between two members in metres; the reply is nil if one does not exist.
func (h Geo) DistanceCmd(one, other string) Cmd { return h.plainCmd("GEODIST", one, other, "m") }

// Distance returns the distance between two members in metres; ok is false if one does not exist.
func (h Geo) Distance(ctx context.Context, db Executor, one, other string) (metres float64, ok bool, err error) {
	return db.Do(ctx, h.DistanceCmd(one, other)).Float()
}

// NearCmd gets up to n members within a radius in metres, the nearest first; the reply is a list of pairs of member and
// distance.
func (h Geo) NearCmd(at Point, metres float64, n int) Cmd {
	return h.plainCmd("GEOSEARCH", "FROMLONLAT", floatText(at.Lon), floatText(at.Lat), "BYRADIUS", floatText(metres), "m",
		"ASC", "COUNT", strconv.Itoa(n), "WITHDIST")
}

// Near returns up to n members within a radius in metres, the nearest first. n must be at least 1. Scores are distances
// in metres. It needs Redis 6.2; the embedded server does not support it.
func (h Geo) Near(ctx context.Context, db Executor, at Point, metres float64, n int) ([]Scored, error) {
	return db.Do(ctx, h.NearCmd(at, metres, n)).Scores()
}

// RemoveCmd removes members; the reply is the number of removed members.
func (h Geo) RemoveCmd(members ...string) Cmd { return ZSet(h).RemoveCmd(members...) }

// Remove removes members and returns the number of removed members.
func (h Geo) Remove(ctx context.Context, db Executor, members ...string) (int64, error) {
	return ZSet(h).Remove(ctx, db, members...)
}

// LenCmd gets the number of members.
func (h Geo) LenCmd() Cmd { return ZSet(h).LenCmd() }

// Len returns the number of members.
func (h Geo) Len(ctx context.Context, db Executor) (int64, error) { return ZSet(h).Len(ctx, db) }
