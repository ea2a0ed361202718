package leaderboard_test

import "testing"

func testTies(t *testing.T, s suite)      {}
func testExhausted(t *testing.T, s suite) {}
func testTold(t *testing.T, s suite)      {}
func testReplay(t *testing.T, s suite)    {}
func testTakeover(t *testing.T, s suite)  {}
func testCounts(t *testing.T, s suite)    {}
