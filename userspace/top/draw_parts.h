// SPDX-License-Identifier: Apache-2.0
// The parts of the screen, which draw.cc combines. Each draws at most `height` lines from line `y`
// on, and returns the line after its last.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "top/draw.h"

namespace forestall::top {

// Working set, page cache and free memory on a bar with the thresholds; their names follow if
// `height` is above 1.
int draw_memory(const Frame& frame, int y, int height, Screen& screen);
// A chart per resource, memory first.
int draw_pressure(const Frame& frame, int y, int height, Screen& screen);
// Thresholds, the most urgent first.
int draw_thresholds(const Frame& frame, int y, int height, Screen& screen);
// The processes of the opened workload, with a rule, a summary and headings; stores their number
// and scroll position in `layout`.
int draw_processes(const Frame& frame, int y, int height, Screen& screen, Layout& layout);
// Headings and rows; stores their positions in `layout`.
int draw_workloads(const Frame& frame, int y, int height, Screen& screen, Layout& layout);
// Actions, newest first.
int draw_decisions(const Frame& frame, int y, int height, Screen& screen);

// Preferred number of lines.
[[nodiscard]] int pressure_lines(const Frame& frame);
[[nodiscard]] int threshold_lines(const Frame& frame);

// A line across the screen with a title.
void draw_rule(const Frame& frame, int y, const std::string& title, Screen& screen);
// Urgency of a threshold, in ascending order; the most urgent are shown first.
enum class Need : std::uint8_t { calm, near, recedes, grace, met };
[[nodiscard]] Need need_of(const v1::Evidence& each);
[[nodiscard]] Role role_of(Need need);
// The warning line is this far above the limit.
[[nodiscard]] Bytes margin_of(const v1::Evidence& each);
// Thresholds in display order, and their texts: hard, soft, warn or slow; an amount in the signal's
// unit; the state.
[[nodiscard]] std::vector<const v1::Evidence*> thresholds_of(const internal::TopReport& report);
[[nodiscard]] std::string kind_of(const v1::Threshold& threshold);
[[nodiscard]] std::string amount_of(const v1::Evidence& each, std::int64_t count);
[[nodiscard]] std::string state_text(const Frame& frame, const v1::Evidence& each);
// Decisions with an action, newest last; and the text of one.
[[nodiscard]] std::vector<const v1::StatusDecision*> acts_of(const internal::TopReport& report);
[[nodiscard]] std::string decision_text(const v1::StatusDecision& each);
// "12:04:31" for seconds of CLOCK_REALTIME.
[[nodiscard]] std::string clock_text(const Frame& frame, std::int64_t seconds);
// "3d 4h", "2m 5s", "850 ms".
[[nodiscard]] std::string brief_duration(std::int64_t ns);

}  // namespace forestall::top
