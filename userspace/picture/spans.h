// SPDX-License-Identifier: Apache-2.0
// Times during which something was so, and the times at which the loop was woken.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "forestall/v1/picture.pb.h"
#include "model/decision.h"
#include "model/wake.h"

namespace forestall::picture {

// Thread rule: one thread.
class Spans {
 public:
  // At most half of them last at a time; what more is met then is left out.
  explicit Spans(std::size_t spans_max) : spans_max_(spans_max) {}

  void take(std::int64_t at_us, const Decision& decision);
  // Whatever lasted until then is over; what happened up to `to_us` is not known.
  void lose(std::int64_t from_us, std::int64_t to_us);
  // Those that were not over at `after_us`. What still lasts ends at `now_us`.
  void put(v1::Picture& out, std::int64_t after_us) const;

 private:
  struct Open {
    v1::Span::Kind kind = v1::Span::KIND_UNSPECIFIED;
    std::string name;
    std::size_t span = 0;  // index into spans_
    bool still = false;    // of the look that is being taken
  };
  void hold(v1::Span::Kind kind, std::string name, std::int64_t at_us);
  void make_room();

  std::size_t spans_max_;
  std::vector<v1::Span> spans_;  // in the order they began
  std::vector<Open> open_;
};

// Thread rule: one thread.
class WakeTimes {
 public:
  explicit WakeTimes(std::size_t times_max) : times_max_(times_max) {}

  void take(std::int64_t at_us, WakeSource source);
  // Times behind `after_us`, no two of a source closer than `apart_us`.
  void put(v1::Picture& out, std::int64_t after_us, std::int64_t apart_us) const;

 private:
  struct Times {
    WakeSource source = WakeSource::startup;
    std::uint64_t count = 0;
    std::vector<std::int64_t> at_us;
  };
  std::size_t times_max_;  // of each source
  std::vector<Times> times_;
};

}  // namespace forestall::picture
