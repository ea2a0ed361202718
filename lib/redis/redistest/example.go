package redistest

import "os"

// ForExample starts an empty redis-server for an example, which has no testing.TB, and returns its host:port and the
// function that ends it. It panics if it cannot start one.
func ForExample() (addr string, end func()) {
	port, ours := freePort()
	if ours == nil {
		panic("no free port")
	}
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		panic(err)
	}
	i := at(dir, port)
	if err := i.run(); err != nil {
		os.RemoveAll(dir)
		panic(err)
	}
	return i.Addr, func() {
		i.Kill()
		ours.Close()
		os.RemoveAll(dir)
	}
}
