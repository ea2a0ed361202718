package keyspace

// A Kind declares the Redis type of a family's keys and the type of their handles.
type Kind[H any] struct {
	typ, form string
	bind      func(Key) H
	check     func(value []byte) error
}

// Checked adds a check of string values. An audit uses it to find values that the program could not read. The check
// gets the stored bytes and must not retain them.
func (k Kind[H]) Checked(check func(value []byte) error) Kind[H] {
	k.check = check
	return k
}

// F0 is a family of exactly one key.
type F0[H any] struct {
	*Family
	bind func(Key) H
}

// F1 is a family whose keys carry one argument.
type F1[A Segment, H any] struct {
	*Family
	bind func(Key) H
}

// F2 is a family whose keys carry two arguments.
type F2[A, B Segment, H any] struct {
	*Family
	bind func(Key) H
}

// F3 is a family whose keys carry three arguments.
type F3[A, B, C Segment, H any] struct {
	*Family
	bind func(Key) H
}

// Def0 declares a family without arguments. Like Def1 to Def3, it panics during the initialisation of the program if
// the declaration is malformed:
//
//   - a level is neither a word nor one placeholder;
//   - there are two hash tags;
//   - the numbers of placeholders and arguments differ;
//   - there is neither a TTL nor a reason for its absence.
func Def0[H any](s *Schema, pattern literal, k Kind[H], ttl TTL, doc Doc) F0[H] {
	return F0[H]{s.add(pattern, k.typ, k.form, ttl, doc).checked(k.check), k.bind}
}

// Def1 declares a family with one argument.
func Def1[A Segment, H any](s *Schema, pattern literal, k Kind[H], ttl TTL, doc Doc) F1[A, H] {
	return F1[A, H]{s.add(pattern, k.typ, k.form, ttl, doc, formOf[A]()).checked(k.check), k.bind}
}

// Def2 declares a family with two arguments, in the pattern's order.
func Def2[A, B Segment, H any](s *Schema, pattern literal, k Kind[H], ttl TTL, doc Doc) F2[A, B, H] {
	return F2[A, B, H]{s.add(pattern, k.typ, k.form, ttl, doc, formOf[A](), formOf[B]()).checked(k.check), k.bind}
}

// Def3 declares a family with three arguments, in the pattern's order.
func Def3[A, B, C Segment, H any](s *Schema, pattern literal, k Kind[H], ttl TTL, doc Doc) F3[A, B, C, H] {
	return F3[A, B, C, H]{s.add(pattern, k.typ, k.form, ttl, doc, formOf[A](), formOf[B](), formOf[C]()).checked(k.check), k.bind}
}

// Named1 is [Def1] for a pattern that is only known at run time. The family gets its own schema. Package cache uses it
// for names that its callers choose. The patterns of a program itself are constants, so that linters find them.
func Named1[A Segment, H any](pattern string, k Kind[H], ttl TTL, doc Doc) F1[A, H] {
	return Def1[A](New(literal(doc.Owner)), literal(pattern), k, ttl, doc)
}

// At returns the family's key.
func (f F0[H]) At() H { return f.bind(Key{f.parts[0], f.Family}) }

// At returns the key for a. It panics if a does not match the [Form] of its type.
func (f F1[A, H]) At(a A) H {
	b := f.begin()
	b = f.next(a.AppendSegment(b), len(b), 0)
	return f.bind(f.key(b))
}

// At returns the key for a and b. It panics if one of them does not match the [Form] of its type.
func (f F2[A, B, H]) At(a A, b B) H {
	buf := f.begin()
	buf = f.next(a.AppendSegment(buf), len(buf), 0)
	buf = f.next(b.AppendSegment(buf), len(buf), 1)
	return f.bind(f.key(buf))
}

// At returns the key for a, b and c. It panics if one of them does not match the [Form] of its type.
func (f F3[A, B, C, H]) At(a A, b B, c C) H {
	buf := f.begin()
	buf = f.next(a.AppendSegment(buf), len(buf), 0)
	buf = f.next(b.AppendSegment(buf), len(buf), 1)
	buf = f.next(c.AppendSegment(buf), len(buf), 2)
	return f.bind(f.key(buf))
}

// Try is At for input from users or files. It returns an error that is [ErrArgument] if the argument does not match the
// [Form] of its type.
func (f F1[A, H]) Try(a A) (h H, err error) {
	defer recoverArgument(&err)
	return f.At(a), nil
}

// Try is At for input from users or files. It returns an error that is [ErrArgument] if an argument does not match the
// [Form] of its type.
func (f F2[A, B, H]) Try(a A, b B) (h H, err error) {
	defer recoverArgument(&err)
	return f.At(a, b), nil
}

// Try is At for input from users or files. It returns an error that is [ErrArgument] if an argument does not match the
// [Form] of its type.
func (f F3[A, B, C, H]) Try(a A, b B, c C) (h H, err error) {
	defer recoverArgument(&err)
	return f.At(a, b, c), nil
}
