package keyspace

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"reflect"
	"slices"
)

// A Channel is the logical name of one pub/sub channel, without the prefix of the deployment. Only a declared channel
// family makes Channels.
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

// A Publisher publishes payloads to the current subscribers of a channel. Package redis's DB is a Publisher.
type Publisher interface {
	Publish(ctx context.Context, ch Channel, payload string) error
	PublishCmd(ch Channel, payload string) Cmd
}

// A Payload describes the messages of a family of channels and the handle of each channel. Make one with [MessagesOf]
// or [RawMessages]. As always with pub/sub, a message without a subscriber is lost, unless [Payload.LoggedIn] is used.
type Payload[H any] struct {
	form    string
	log     *Family
	carries map[string]any
	bind    func(Channel) H
}

// LoggedIn declares that every message is also an entry of a stream. A subscriber that was disconnected reads the
// stream to catch up. The stream's family must be declared before.
func (p Payload[H]) LoggedIn(stream *Family) Payload[H] { p.log = stream; return p }

// Carrying declares the content of messages whose Go type does not describe it, such as [json.RawMessage]. The map has,
// for the name of each kind of message, a value of its type. The form contains a checksum of the JSON of each type, so
// that a changed field is a change of layout.
func (p Payload[H]) Carrying(types map[string]any) Payload[H] {
	p.carries = types
	for i, name := range slices.Sorted(maps.Keys(types)) {
		before := ", "
		if i == 0 {
			before = " with "
		}
		t := reflect.TypeOf(types[name])
		p.form += fmt.Sprintf("%s%s %s#%08x", before, name, t, crc32.ChecksumIEEE([]byte(shape(t, nil))))
	}
	return p
}

// RawMessages is the [Payload] of messages in the owner's own format, which form describes in the catalogue. Their
// handle is the plain [Channel].
func RawMessages(form literal) Payload[Channel] {
	return Payload[Channel]{form: string(form), bind: func(c Channel) Channel { return c }}
}

// Messages is a channel whose messages are each one P, encoded as JSON.
type Messages[P any] struct{ Channel }

// MessagesOf is the [Payload] of [Messages].
func MessagesOf[P any]() Payload[Messages[P]] {
	return Payload[Messages[P]]{form: jsonForm[P](), bind: func(c Channel) Messages[P] { return Messages[P]{c} }}
}

// Publish publishes v.
func (m Messages[P]) Publish(ctx context.Context, to Publisher, v P) error {
	s, err := m.encode(v)
	if err != nil {
		return err
	}
	return to.Publish(ctx, m.Channel, s)
}

// PublishCmd is the command of Publish, for a pipeline of the same Publisher. It returns an error if v cannot be
// encoded as JSON.
func (m Messages[P]) PublishCmd(to Publisher, v P) (Cmd, error) {
	s, err := m.encode(v)
	if err != nil {
		return Cmd{}, err
	}
	return to.PublishCmd(m.Channel, s), nil
}

// Decode decodes a received message.
func (m Messages[P]) Decode(payload string) (v P, err error) {
	if err := json.Unmarshal([]byte(payload), &v); err != nil {
		return *new(P), fmt.Errorf("keyspace: %s: %w", m.fam.Pattern, err)
	}
	return v, nil
}

func (m Messages[P]) encode(v P) (string, error) {
	s, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("keyspace: %s: %w", m.fam.Pattern, err)
	}
	return string(s), nil
}

// C0 is a family of exactly one channel.
type C0[H any] struct {
	*Family
	bind func(Channel) H
}

// C1 is a family of channels with one argument.
type C1[A Segment, H any] struct {
	*Family
	bind func(Channel) H
}

// DefChannel0 declares one channel. Like [Def0], it panics if the declaration is malformed.
func DefChannel0[H any](s *Schema, pattern literal, p Payload[H], doc Doc) C0[H] {
	return C0[H]{addChannel(s, pattern, p, doc), p.bind}
}

// DefChannel1 declares channels with one argument.
func DefChannel1[A Segment, H any](s *Schema, pattern literal, p Payload[H], doc Doc) C1[A, H] {
	return C1[A, H]{addChannel(s, pattern, p, doc, formOf[A]()), p.bind}
}

const channelType = "channel"

var channelTTL = Forever("a channel keeps nothing")

func addChannel[H any](s *Schema, pattern literal, p Payload[H], doc Doc, args ...Form) *Family {
	if p.log != nil && p.log.Type != "stream" {
		panic(fmt.Sprintf("keyspace: %q is logged in %q, which is not a stream", pattern, p.log.Pattern))
	}
	f := s.add(pattern, channelType, p.form, channelTTL, doc, args...)
	f.Log, f.Carries = p.log, p.carries
	return f
}

// IsChannel reports whether f is a family of channels and not of keys.
func (f *Family) IsChannel() bool { return f.Type == channelType }

// At returns the channel.
func (c C0[H]) At() H { return c.bind(Channel{c.parts[0], c.Family}) }

// At returns the channel for a. It panics if a does not match the [Form] of its type.
func (c C1[A, H]) At(a A) H {
	b := c.begin()
	b = c.next(a.AppendSegment(b), len(b), 0)
	return c.bind(Channel{view(b), c.Family})
}
