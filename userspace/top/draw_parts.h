// SPDX-License-Identifier: Apache-2.0
// The parts of the screen (draw.cc puts them together). Each draws from line `y` on, on at most
// `height` lines, and returns the line behind what it drew.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "top/draw.h"

namespace forestall::top {

// Working set, page cache and free memory on one bar, thresholds marked on it; with `height` above
// 1 their names below it.
int draw_memory(const Frame& frame, int y, int height, Screen& screen);
// A chart for each resource, memory first.
int draw_pressure(const Frame& frame, int y, int height, Screen& screen);
// Thresholds, those first that need attention.
int draw_thresholds(const Frame& frame, int y, int height, Screen& screen);
// Headings and rows; says in the layout where they are.
int draw_workloads(const Frame& frame, int y, int height, Screen& screen, Layout& layout);
// What was done, newest first.
int draw_decisions(const Frame& frame, int y, int height, Screen& screen);

// How many lines the parts would like.
[[nodiscard]] int pressure_lines(const Frame& frame);
[[nodiscard]] int threshold_lines(const Frame& frame);

// A line across the screen with a title in it.
void draw_rule(const Frame& frame, int y, const std::string& title, Screen& screen);
// Thresholds in the order in which they are shown, and what is told of each: hard, soft, warn or
// slow; an amount in its signal's unit; its state in words.
[[nodiscard]] std::vector<const v1::Evidence*> thresholds_of(const v1::TopReport& report);
[[nodiscard]] std::string kind_of(const v1::Evidence& each);
[[nodiscard]] std::string amount_of(const v1::Evidence& each, std::int64_t count);
[[nodiscard]] std::string state_text(const Frame& frame, const v1::Evidence& each);
// The decisions by which something was done, newest last; and one of them in words.
[[nodiscard]] std::vector<const v1::StatusDecision*> acts_of(const v1::TopReport& report);
[[nodiscard]] std::string decision_text(const v1::StatusDecision& each);
// "12:04:31" of a time of CLOCK_REALTIME, seconds.
[[nodiscard]] std::string clock_text(const Frame& frame, std::int64_t seconds);
// "3d 4h", "2m 5s", "850 ms".
[[nodiscard]] std::string brief_duration(std::int64_t ns);

}  // namespace forestall::top
