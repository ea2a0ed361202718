// Package keyspace has the part of the real package that the tests of keyvet use.
package keyspace

type literal string

type Schema struct{}

func New(owner literal) *Schema { return nil }

type Key struct{ s string }

func (k Key) String() string { return k.s }

type Int struct{ N int64 }

type Text struct{ S string }

type Hashed struct{ S string }

type F0 struct{}

func (F0) At() Key { return Key{} }

type F1[A any] struct{}

func (F1[A]) At(...A) Key { return Key{} }

type F2[A, B any] struct{}

func (F2[A, B]) At(A, B) Key { return Key{} }

func Def0(s *Schema, pattern literal) F0           { return F0{} }
func Def1[A any](s *Schema, pattern literal) F1[A] { return F1[A]{} }
func Def2[A, B any](s *Schema, p literal) F2[A, B] { return F2[A, B]{} }
func DefChannel0(s *Schema, pattern literal) F0    { return F0{} }
func Defined() bool                                { return true }
func (*Schema) New() *Schema                       { return nil }

type Cmd struct {
	Name string
	Key  Key
	Args []string
}
