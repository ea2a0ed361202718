package redis

import (
	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// reply converts without copying: a text shares the bytes that were read from the wire. All modes use RESP2, so there
// are only lists, numbers, texts, nil and errors, and maps are flat.
func (db *DB) reply(r rueidis.RedisResult) keyspace.Reply {
	if err := r.NonRedisError(); err != nil {
		return keyspace.Fail(db.failed(err))
	}
	m, _ := r.ToMessage()
	return value(&m)
}

// failed classifies an error and, after a timeout, makes the watcher check the servers.
func (db *DB) failed(err error) error {
	db.nodes.suspectIfLate(err)
	return unanswered(err)
}

func value(m *rueidis.RedisMessage) keyspace.Reply {
	switch {
	case m.IsString():
		s, _ := m.ToString()
		return keyspace.Reply{Kind: keyspace.TextReply, Str: s}
	case m.IsInt64():
		n, _ := m.ToInt64()
		return keyspace.Reply{Kind: keyspace.IntReply, N: n}
	case m.IsArray():
		items, _ := m.ToArray()
		list := make([]keyspace.Reply, len(items))
		for i := range items {
			list[i] = value(&items[i])
		}
		return keyspace.Reply{Kind: keyspace.ListReply, List: list}
	case m.IsNil():
		return keyspace.Reply{}
	}
	return keyspace.Fail(classify(m.Error()))
}
