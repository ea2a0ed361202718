// Package keyspace has what the tests of keyvet use of the real one.
package keyspace

type literal string

type Schema struct{}

func New(owner literal) *Schema { return nil }

type Key struct{ s string }

type F0 struct{}

func (F0) At() Key { return Key{} }

func Def0(s *Schema, pattern literal) F0        { return F0{} }
func Def1[A any](s *Schema, pattern literal) F0 { return F0{} }
func Def2[A, B any](s *Schema, p literal) F0    { return F0{} }
func DefChannel0(s *Schema, pattern literal) F0 { return F0{} }
func Defined() bool                             { return true }
func (*Schema) New() *Schema                    { return nil }

type Cmd struct {
	Name string
	Key  Key
	Args []string
}
