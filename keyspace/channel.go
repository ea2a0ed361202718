package keyspace

// A Channel is the logical name of one pub/sub channel, without the
// deployment's prefix. Only a declared channel family makes one.
type Channel struct {
	s   string
	fam *Family
}

// String returns the logical channel name.
func (c Channel) String() string { return c.s }

// Family returns the declaration this channel was made from.
func (c Channel) Family() *Family { return c.fam }

// IsZero reports whether c is the zero Channel, which names nothing.
func (c Channel) IsZero() bool { return c.fam == nil }

// C0 is a family of exactly one channel.
type C0 struct{ *Family }

// C1 is a family of channels with one argument.
type C1[A Segment] struct{ *Family }

// DefChannel0 declares one channel; form names the payload. Like [Def0] it
// panics on a malformed declaration.
func DefChannel0(s *Schema, pattern, form literal, doc Doc) C0 {
	return C0{s.add(pattern, channelType, string(form), channelTTL, doc)}
}

// DefChannel1 declares channels with one argument; form names the payload.
func DefChannel1[A Segment](s *Schema, pattern, form literal, doc Doc) C1[A] {
	return C1[A]{s.add(pattern, channelType, string(form), channelTTL, doc, formOf[A]())}
}

const channelType = "channel"

var channelTTL = Forever("a channel keeps nothing")

// IsChannel reports whether f is a family of channels and not of keys.
func (f *Family) IsChannel() bool { return f.Type == channelType }

// At returns the channel.
func (c C0) At() Channel { return Channel{c.parts[0], c.Family} }

// At returns the channel for a. It panics when a is not of its type's [Form].
func (c C1[A]) At(a A) Channel {
	b := c.begin()
	b = c.next(a.AppendSegment(b), len(b), 0)
	return Channel{view(b), c.Family}
}
