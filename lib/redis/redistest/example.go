package redistest

import "os"

// ForExample starts an empty redis-server for an example, which has no test that could start one,
// and returns its host:port and what ends it. It panics when there is none to be had.
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
