package keyspace

// A Key is the logical name of one Redis key: its family's pattern with the
// arguments filled in, without the deployment's prefix, which the executor
// adds. Only a [Family] makes keys, so a Key is always declared, escaped and of
// a known type. The zero Key names nothing.
type Key struct {
	s   string
	fam *Family
}

// String returns the logical key, for example "user:sign:{V1StGXR8_Z5j}:2026".
func (k Key) String() string { return k.s }

// Family returns the declaration this key was made from.
func (k Key) Family() *Family { return k.fam }

// IsZero reports whether k is the zero Key.
func (k Key) IsZero() bool { return k.fam == nil }
