// SPDX-License-Identifier: Apache-2.0
// Draws a sample of the node as a screen of cells. Pure: equal arguments give equal screens.
//
// The size selects the parts: 40x10 shows the bar, memory pressure, the nearest threshold and a few
// workloads; 200x60 shows everything.
#pragma once

#include <chrono>

#include "forestall/internal/top.pb.h"
#include "top/history.h"
#include "top/screen.h"
#include "top/view.h"

namespace forestall::top {

struct Drawn {
  Screen screen;
  Layout layout;
};

// Inputs of a screen, which must outlive the call.
struct Frame {
  const internal::TopReport& report;  // at_ns 0: no sample yet
  const History& history;
  const View& view;
  const Glyphs& glyphs;
  std::chrono::seconds utc_offset{0};  // of the clock on screen
  Duration age{0};                     // of the sample
};

[[nodiscard]] Drawn draw(const Frame& frame, Size size);

}  // namespace forestall::top
