// SPDX-License-Identifier: Apache-2.0
// Records: decisions with their candidates and outcomes, and OOM kills by the kernel.
//
// A kill has two records, at its start and at its end: the later one replaces the earlier.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "forestall/internal/picture.pb.h"
#include "model/record.h"
#include "picture/recent_evaluations.h"

namespace forestall::picture {

// Thread rule: one thread.
class Moments {
 public:
  struct Limits {
    std::size_t moments = 400;
    std::size_t candidates = 32;  // of each; more up to the victim
  };
  explicit Moments(Limits limits) : limits_(limits), evaluations_(limits.candidates) {}

  // See RecentEvaluations.
  void evaluation(std::uint64_t number, const Record& evaluated) {
    evaluations_.add(number, evaluated);
  }
  void forget_evaluations() { evaluations_.forget(); }
  // A record of the evaluation with that number, which has its observation and decision; 0: the
  // record has its own. `run` distinguishes runs of the agent, which number their sequences anew.
  void record(std::uint64_t evaluation, std::uint64_t run, std::int64_t at_us, bool dry_run,
              const Record& record);

  // Times of kills by the agent and by the kernel.
  [[nodiscard]] std::vector<std::int64_t> kill_times() const;
  // The moments that are new or changed since `revision`; 0: all.
  void put(internal::Picture& out, std::uint64_t since) const;
  [[nodiscard]] std::uint64_t revision() const { return revision_; }

 private:
  struct Reported {
    internal::Moment moment;
    std::uint64_t revision = 0;
    std::optional<std::int64_t> to_signal_ns = std::nullopt;
  };
  void make_room();

  Limits limits_;
  std::map<std::uint64_t, Reported> reported_;  // by id
  RecentEvaluations evaluations_;
  std::uint64_t revision_ = 0;
  std::uint64_t left_out_ = 0;
  internal::PictureSummary gone_;  // counts of moments that were dropped
};

}  // namespace forestall::picture
