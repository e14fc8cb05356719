// SPDX-License-Identifier: Apache-2.0
// A picture of the node as a screen of cells. Pure: the same arguments give the same screen.
//
// What there is room for follows from the size alone: 40x10 has the bar, the pressure of memory,
// the nearest threshold and a few workloads, 200x60 all of it.
#pragma once

#include <chrono>

#include "forestall/v1/top.pb.h"
#include "top/history.h"
#include "top/screen.h"
#include "top/view.h"

namespace forestall::top {

struct Drawn {
  Screen screen;
  Layout layout;
};

// What a screen is made of; all of it outlives the call.
struct Frame {
  const v1::TopReport& report;  // at_ns 0: nothing was read yet
  const History& history;
  const View& view;
  const Glyphs& glyphs;
  std::chrono::seconds utc_offset{0};  // of the clock that is shown
  Duration age{0};                     // of the picture
};

[[nodiscard]] Drawn draw(const Frame& frame, Size size);

}  // namespace forestall::top
