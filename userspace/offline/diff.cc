// SPDX-License-Identifier: Apache-2.0
// `forestall diff`: compares the decisions of two replays or recordings. Exit codes are those of
// diff(1).
#include <fmt/format.h>

#include <cstdio>

#include "base/printable.h"
#include "cli/exit_code.h"
#include "cli/failure.h"
#include "messages/convert.h"
#include "messages/json.h"
#include "model/duration.h"
#include "offline/commands.h"
#include "replay/comparison_text.h"
#include "replay/decision_difference.h"
#include "replay/decision_stream.h"

namespace forestall::cli {
namespace {

// diff(1): 0 equal, 1 different, 2 error.
constexpr int kDifferent = 1;
constexpr int kTrouble = 2;

// Merges two streams by time.
class Comparison {
 public:
  Comparison(replay::DecisionStream& before, replay::DecisionStream& after)
      : before_(before), after_(after) {}

  Result<void> run() {
    auto a = TRY(before_.next());
    auto b = TRY(after_.next());
    while (a || b) {
      const bool only_a = a && (!b || a->at < b->at);
      const bool only_b = b && (!a || b->at < a->at);
      if (!first_time_) first_time_ = only_b ? b->at : a->at;
      if (only_a || only_b) {
        ++unmatched_;
      } else {
        hold_together(*a, *b);
      }
      if (!only_b) {
        note(a->at, before_time_);
        episodes_before_.take(a->at, a->decision, a->age);
        a = TRY(before_.next());
      }
      if (!only_a) {
        note(b->at, after_time_);
        episodes_after_.take(b->at, b->decision, b->age);
        b = TRY(after_.next());
      }
    }
    return {};
  }

  // Whether no decision of one stream is on an observation of the other's.
  [[nodiscard]] bool disjoint() const { return same_ + different_ == 0; }
  // Whether the streams have a decision.
  [[nodiscard]] bool seen_before() const { return before_time_.has_value(); }
  [[nodiscard]] bool seen_after() const { return after_time_.has_value(); }
  [[nodiscard]] bool equal() const { return different_ == 0 && unmatched_ == 0; }
  // REQUIRES: both streams have a decision.
  [[nodiscard]] std::string text(const std::string& before, const std::string& after) const;
  [[nodiscard]] internal::ReplayComparison message() const;

 private:
  using Time = std::optional<replay::Sides::Time>;

  static void note(MonotonicTime at, Time& time) {
    if (!time) time.emplace(at, at);
    time->second = at;
  }

  void hold_together(const replay::TimedDecision& a, const replay::TimedDecision& b) {
    if (a.decision == b.decision) {
      ++same_;
      return;
    }
    ++different_;
    const bool otherwise = replay::acts_otherwise(a.decision, b.decision);
    act_otherwise_ += otherwise ? 1 : 0;
    if (!first_ || (otherwise && act_otherwise_ == 1)) first_ = std::pair(a, b);
  }

  replay::DecisionStream& before_;
  replay::DecisionStream& after_;
  replay::Episodes episodes_before_;
  replay::Episodes episodes_after_;
  std::uint64_t same_ = 0;
  std::uint64_t different_ = 0;
  std::uint64_t act_otherwise_ = 0;  // of the different ones
  std::uint64_t unmatched_ = 0;
  std::optional<MonotonicTime> first_time_;
  // The first pair that acts differently; if none does, the first different one.
  std::optional<std::pair<replay::TimedDecision, replay::TimedDecision>> first_;
  // From the first to the last decision.
  Time before_time_;
  Time after_time_;
};

std::string Comparison::text(const std::string& before, const std::string& after) const {
  const replay::Sides sides{before, after, before_time_, after_time_};
  std::string out = replay::episodes_text(replay::compare(episodes_before_, episodes_after_),
                                          *first_time_, sides);
  out += fmt::format("\ndecisions: {} equal, {} different ({} act differently), {} in only one\n",
                     same_, different_, act_otherwise_, unmatched_);
  if (unmatched_ > 0 && before_time_ != after_time_) {
    for (const auto& [name, time] :
         {std::pair{before, before_time_}, std::pair{after, after_time_}}) {
      out += fmt::format("{} has evaluations from {} to {}\n", printable(name),
                         offset(time->first - *first_time_), offset(time->second - *first_time_));
    }
  }
  if (!first_) return out;
  const auto& [a, b] = *first_;
  return out + fmt::format("the first {} is at {}:\n{}",
                           act_otherwise_ > 0 ? "that acts differently" : "difference",
                           offset(a.at - *first_time_),
                           replay::difference_text(a.decision, b.decision, a.at, sides));
}

internal::ReplayComparison Comparison::message() const {
  internal::ReplayComparison out;
  out.set_same(same_);
  out.set_different(different_);
  out.set_unmatched(unmatched_);
  out.set_act_otherwise(act_otherwise_);
  replay::add_episodes(replay::compare(episodes_before_, episodes_after_), out);
  return out;
}

}  // namespace

int run_diff(const Options& options, const DiffOptions& diff) {
  const auto before = replay::open_decisions(diff.before);
  if (!before) return fail("diff", before.error(), kTrouble);
  const auto after = replay::open_decisions(diff.after);
  if (!after) return fail("diff", after.error(), kTrouble);
  Comparison comparison(**before, **after);
  const auto done = comparison.run();
  for (const auto* stream : {&*before, &*after}) {
    for (const std::string& remark : (*stream)->remarks()) fmt::print(stderr, "{}\n", remark);
  }
  if (!done) return fail("diff", done.error(), kTrouble);
  if (!comparison.seen_before())
    return fail("diff", error(diff.before + ": contains no decision"), kTrouble);
  if (!comparison.seen_after())
    return fail("diff", error(diff.after + ": contains no decision"), kTrouble);
  internal::ReplayComparison message = comparison.message();
  if (comparison.disjoint()) {
    const std::string remark = diff.before + " and " + diff.after +
                               " have no evaluation at the same time: they are of different "
                               "observations, and only their episodes can be compared";
    fmt::print(stderr, "forestall diff: {}\n", printable(remark));
    message.add_remarks(remark);
  }
  std::string out;
  if (options.output == OutputFormat::json) {
    out = messages::to_json(message, messages::JsonStyle::pretty);
  } else if (!comparison.equal()) {
    out = comparison.text(diff.before, diff.after);
  }
  const bool written = std::fwrite(out.data(), 1, out.size(), stdout) == out.size();
  if (!written || std::fflush(stdout) != 0)
    return fail("diff", error("standard output cannot be written"), kTrouble);
  return comparison.equal() ? kExitOk : kDifferent;
}

}  // namespace forestall::cli
