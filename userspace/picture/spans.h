// SPDX-License-Identifier: Apache-2.0
// Spans of time in which a state lasted, and the wakeup times of the loop.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "forestall/internal/picture.pb.h"
#include "model/decision.h"
#include "model/wake.h"

namespace forestall::picture {

// Thread rule: one thread.
class Spans {
 public:
  // At most half of the spans may be open at a time; further ones are left out.
  explicit Spans(std::size_t spans_max) : spans_max_(spans_max) {}

  void take(std::int64_t at_us, const Decision& decision);
  // Ends all open spans. The time up to `to_us` is unknown.
  void lose(std::int64_t from_us, std::int64_t to_us);
  // The spans that had not ended at `after_us`. Open spans end at `now_us`.
  void put(internal::Picture& out, std::int64_t after_us) const;

 private:
  struct Open {
    internal::Span::Kind kind = internal::Span::KIND_UNSPECIFIED;
    std::string name;
    std::size_t span = 0;  // index into spans_
    bool still = false;    // seen in the current evaluation
  };
  void extend(internal::Span::Kind kind, std::string name, std::int64_t at_us);
  void make_room();

  std::size_t spans_max_;
  std::vector<internal::Span> spans_;  // in order of their start
  std::vector<Open> open_;
};

// Thread rule: one thread.
class WakeTimes {
 public:
  explicit WakeTimes(std::size_t times_max) : times_max_(times_max) {}

  void take(std::int64_t at_us, WakeSource source);
  // Times after `after_us`; those of one source are at least `apart_us` apart.
  void put(internal::Picture& out, std::int64_t after_us, std::int64_t apart_us) const;

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
