// SPDX-License-Identifier: Apache-2.0
// `forestall diff`: compares the decisions of two replays or recordings. Exit codes are those of
// diff(1).
#include <fmt/format.h>

#include <cstdio>

#include "api/convert.h"
#include "api/json.h"
#include "cli/commands.h"
#include "cli/comparison_text.h"
#include "cli/decision_stream.h"
#include "cli/exit_code.h"
#include "model/duration.h"

namespace forestall::cli {
namespace {

// diff(1): 0 equal, 1 different, 2 error.
constexpr int kDifferent = 1;
constexpr int kTrouble = 2;

// Merges two streams by time.
class Comparison {
 public:
  Comparison(DecisionStream& before, DecisionStream& after) : before_(before), after_(after) {}

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
        episodes_before_.take(a->at, a->decision, a->age);
        a = TRY(before_.next());
      }
      if (!only_a) {
        episodes_after_.take(b->at, b->decision, b->age);
        b = TRY(after_.next());
      }
    }
    return {};
  }

  [[nodiscard]] bool equal() const { return different_ == 0 && unmatched_ == 0; }
  [[nodiscard]] std::string text(const Sides& sides) const;
  [[nodiscard]] v1::ReplayComparison message() const;

 private:
  void hold_together(const TimedDecision& a, const TimedDecision& b) {
    if (a.decision == b.decision) {
      ++same_;
      return;
    }
    ++different_;
    if (!first_) first_ = std::pair(a, b);
  }

  DecisionStream& before_;
  DecisionStream& after_;
  Episodes episodes_before_;
  Episodes episodes_after_;
  std::uint64_t same_ = 0;
  std::uint64_t different_ = 0;
  std::uint64_t unmatched_ = 0;
  std::optional<MonotonicTime> first_time_;
  std::optional<std::pair<TimedDecision, TimedDecision>> first_;  // the first different pair
};

std::string Comparison::text(const Sides& sides) const {
  std::string out = fmt::format("decisions: {} equal, {} different, {} in only one\n", same_,
                                different_, unmatched_);
  if (first_) {
    out += fmt::format("the first difference is at +{}:\n{}",
                       to_string(first_->first.at - *first_time_),
                       difference_text(first_->first.decision, first_->second.decision, sides));
  }
  return out + "\n" +
         episodes_text(compare(episodes_before_, episodes_after_), *first_time_, sides);
}

v1::ReplayComparison Comparison::message() const {
  v1::ReplayComparison out;
  out.set_same(same_);
  out.set_different(different_);
  out.set_unmatched(unmatched_);
  add_episodes(compare(episodes_before_, episodes_after_), out);
  return out;
}

int fail(const Error& failure) {
  fmt::print(stderr, "forestall diff: {}\n", failure.text());
  return kTrouble;
}

}  // namespace

int run_diff(const Options& options, const DiffOptions& diff) {
  const auto before = open_decisions(diff.before);
  if (!before) return fail(before.error());
  const auto after = open_decisions(diff.after);
  if (!after) return fail(after.error());
  Comparison comparison(**before, **after);
  const auto done = comparison.run();
  for (const auto* stream : {&*before, &*after}) {
    for (const std::string& remark : (*stream)->remarks()) fmt::print(stderr, "{}\n", remark);
  }
  if (!done) return fail(done.error());
  std::string out;
  if (options.output == OutputFormat::json) {
    out = api::to_json(comparison.message(), api::JsonStyle::pretty);
  } else if (!comparison.equal()) {
    out = comparison.text({diff.before, diff.after});
  }
  const bool written = std::fwrite(out.data(), 1, out.size(), stdout) == out.size();
  if (!written || std::fflush(stdout) != 0) return fail(error("standard output cannot be written"));
  return comparison.equal() ? kExitOk : kDifferent;
}

}  // namespace forestall::cli
