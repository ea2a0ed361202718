package keyspace

// Hash is a hash key; its owner chooses the fields.
type Hash struct{ Key }

// HashOf is the [Kind] of [Hash]; form describes the fields in the catalogue.
func HashOf(form literal) Kind[Hash] {
	return Kind[Hash]{typ: "hash", form: string(form), bind: func(k Key) Hash { return Hash{k} }}
}

// ZSet is a sorted set; its owner chooses the members.
type ZSet struct{ Key }

// ZSetOf is the [Kind] of [ZSet]; form describes member and score in the catalogue.
func ZSetOf(form literal) Kind[ZSet] {
	return Kind[ZSet]{typ: "zset", form: string(form), bind: func(k Key) ZSet { return ZSet{k} }}
}

// Set is a set; its owner chooses the members.
type Set struct{ Key }

// SetOf is the [Kind] of [Set]; form describes the members in the catalogue.
func SetOf(form literal) Kind[Set] {
	return Kind[Set]{typ: "set", form: string(form), bind: func(k Key) Set { return Set{k} }}
}

// List is a list of strings.
type List struct{ Key }

// ListOf is the [Kind] of [List]; form describes the elements in the catalogue.
func ListOf(form literal) Kind[List] {
	return Kind[List]{typ: "list", form: string(form), bind: func(k Key) List { return List{k} }}
}

// Stream is a stream of entries.
type Stream struct{ Key }

// StreamOf is the [Kind] of [Stream]; form describes the fields in the catalogue.
func StreamOf(form literal) Kind[Stream] {
	return Kind[Stream]{typ: "stream", form: string(form), bind: func(k Key) Stream { return Stream{k} }}
}
