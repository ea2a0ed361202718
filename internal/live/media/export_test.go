package media

// Forget has a source have no group of pictures.
func Forget(s *Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gop = gop{}
}
