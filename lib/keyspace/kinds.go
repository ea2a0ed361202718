package keyspace

// Hash is a hash key; its owner says what the fields are.
type Hash struct{ Key }

// HashOf is the [Kind] of [Hash]; form names the fields for the catalogue.
func HashOf(form literal) Kind[Hash] {
	return Kind[Hash]{typ: "hash", form: string(form), bind: func(k Key) Hash { return Hash{k} }}
}

// ZSet is a sorted set whose members are texts of the owner's choice.
type ZSet struct{ Key }

// ZSetOf is the [Kind] of [ZSet]; form names member and score for the catalogue.
func ZSetOf(form literal) Kind[ZSet] {
	return Kind[ZSet]{typ: "zset", form: string(form), bind: func(k Key) ZSet { return ZSet{k} }}
}

// Set is a set whose members are texts of the owner's choice.
type Set struct{ Key }

// SetOf is the [Kind] of [Set]; form names the members for the catalogue.
func SetOf(form literal) Kind[Set] {
	return Kind[Set]{typ: "set", form: string(form), bind: func(k Key) Set { return Set{k} }}
}

// List is a list of texts.
type List struct{ Key }

// ListOf is the [Kind] of [List]; form names the elements for the catalogue.
func ListOf(form literal) Kind[List] {
	return Kind[List]{typ: "list", form: string(form), bind: func(k Key) List { return List{k} }}
}

// Stream is a stream of entries.
type Stream struct{ Key }

// StreamOf is the [Kind] of [Stream]; form names the fields for the catalogue.
func StreamOf(form literal) Kind[Stream] {
	return Kind[Stream]{typ: "stream", form: string(form), bind: func(k Key) Stream { return Stream{k} }}
}
