package main

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

type durationLine struct {
	Nanoseconds int64  `json:"nanoseconds"`
	Text        string `json:"text"`
}

func durations(put func(any)) {
	const minute, hour, day, year = 60, 3600, 86400, 365 * 86400
	edges := []int64{0, 1, 2, 10, minute, 2 * minute, 10 * minute, hour, 3 * hour, 8 * hour, day, 2 * day, 8 * day, 30 * day, year, 2 * year, 8 * year, 100 * year}
	var all []int64
	for _, edge := range edges {
		for _, by := range []int64{-1, 0, 1, 5, minute, hour, day} {
			for _, nanoseconds := range []int64{-1, 0, 1, 999999999} {
				all = append(all, (edge+by)*1e9+nanoseconds, -(edge+by)*1e9-nanoseconds)
			}
		}
	}
	all = append(all, 1<<63-1, -1<<63)
	seen := map[int64]bool{}
	for _, nanoseconds := range all {
		if !seen[nanoseconds] {
			seen[nanoseconds] = true
			put(durationLine{nanoseconds, duration.HumanDuration(time.Duration(nanoseconds))})
		}
	}
}
