// SPDX-License-Identifier: Apache-2.0
// Records: decisions with their candidates and outcomes, and OOM kills by the kernel.
//
// A kill has two records, at its start and at its end: the later one replaces the earlier. In a
// recording, records refer to evaluations; the parts of those that they need are kept.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "forestall/internal/picture.pb.h"
#include "model/record.h"

namespace forestall::picture {

// Thread rule: one thread.
class Moments {
 public:
  struct Limits {
    std::size_t moments = 400;
    std::size_t candidates = 32;  // of each; more up to the victim
  };
  explicit Moments(Limits limits) : limits_(limits) {}

  // An evaluation that a record may refer to by its number, which ascends until
  // forget_evaluations().
  void evaluation(std::uint64_t number, const Record& evaluated);
  // Another run of the agent numbers its evaluations anew: no record refers to earlier ones.
  void forget_evaluations();
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
  // An evaluation that a record may refer to.
  struct Seen {
    std::uint64_t number = 0;
    Record evaluated;  // the parts that are shown
    std::uint64_t left_out = 0;
  };

  [[nodiscard]] const Seen* find(std::uint64_t number) const;
  // The shown parts of a record; counts candidates that are left out.
  [[nodiscard]] Record trimmed(const Record& record, std::uint64_t& left_out) const;
  void make_room();

  Limits limits_;
  std::map<std::uint64_t, Reported> reported_;  // by id
  std::deque<Seen> kills_;                      // evaluations that killed
  std::deque<Seen> others_;                     // the last other evaluations
  std::uint64_t revision_ = 0;
  std::uint64_t left_out_ = 0;
  internal::PictureSummary gone_;  // counts of moments that were dropped
};

}  // namespace forestall::picture
