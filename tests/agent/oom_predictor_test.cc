// SPDX-License-Identifier: Apache-2.0
// When prediction rounds begin, what they may cost, and which prediction is used for a kill. The
// test sets processes and time; the cgroups are those of this machine, which are only read.
#include "agent/oom_predictor.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>

#include "support/child.h"

namespace forestall::agent {
namespace {

using std::chrono::milliseconds;

// Advanced by the round and by the test.
class SharedClock final : public Clock {
 public:
  [[nodiscard]] MonotonicTime now() const override { return from_ns(now_); }
  void advance(Duration by) { now_ += by.count(); }

 private:
  std::atomic<std::int64_t> now_{1'000'000'000'000};
};

ProcessSample process(pid_t pid, Pages anon) {
  ProcessSample sample;
  sample.id = {pid, 1};
  sample.memory.anon = anon;
  sample.order = static_cast<std::uint64_t>(pid);
  return sample;
}

class FakeProcesses final : public sources::ProcessSource {
 public:
  explicit FakeProcesses(SharedClock& clock) : clock_(clock) {}

  Result<void> scan(std::optional<CgroupId>, std::vector<ProcessSample>& samples) override {
    clock_.advance(cost);
    samples = processes;
    return {};
  }
  Result<bool> order(std::vector<ProcessSample>&, const std::vector<std::size_t>&) override {
    return false;
  }
  Result<bool> order_on_node(std::vector<ProcessSample>& samples,
                             const std::vector<std::size_t>& which) override {
    if (!order_failure.empty()) return error(order_failure);
    if (!order_known) return false;
    // The kernel's walk reaches the last one first.
    std::uint64_t next = which.size();
    for (const std::size_t index : which) samples[index].order = next--;
    return true;
  }
  [[nodiscard]] std::string_view name() const override { return "fake"; }

  Duration cost = milliseconds(10);
  bool order_known = false;
  std::string order_failure;
  std::vector<ProcessSample> processes{process(10, 100), process(11, 300), process(12, 200)};

 private:
  SharedClock& clock_;
};

OomKillEvent node_kill(pid_t pid, MonotonicTime at) {
  OomKillEvent kill;
  kill.at = at;
  kill.victim = {pid, 1};
  kill.constraint = Constraint::none;
  return kill;
}

Decision near_decision() {
  Decision decision;
  Evidence& evidence = decision.evidence.emplace_back();
  evidence.threshold.signal = Signal::memory_available;
  evidence.available = mib(150).count;
  evidence.limit = binary(mib(100).count);
  return decision;
}

class OomPredictorTest : public testing::Test {
 protected:
  void SetUp() override {
    auto tree = kernel::CgroupTree::discover();
    ASSERT_TRUE(tree.ok()) << tree.error().text();
    tree_.emplace(std::move(*tree));
    auto fake = std::make_unique<FakeProcesses>(clock_);
    processes_ = fake.get();
    auto made = OomPredictor::create(*tree_, std::move(fake), clock_);
    ASSERT_TRUE(made.ok()) << made.error().text();
    forecast_ = std::move(*made);
  }

  void evaluate(const Decision& decision = {}, WakeSource wake = WakeSource::recheck) {
    Observation observation;
    observation.wake.source = wake;
    forecast_->evaluated(observation, decision);
  }

  // Waits for the end of a round; returns the paths of its results.
  std::vector<OomPredictor::Answer> finish() {
    pollfd over{forecast_->fd(), POLLIN, 0};
    const auto patience = std::chrono::duration_cast<milliseconds>(test::kPatience).count();
    EXPECT_EQ(poll(&over, 1, static_cast<int>(patience)), 1);
    return forecast_->collect();
  }

  // REQUIRES: all events that affect it have happened.
  [[nodiscard]] bool round_runs() {
    pollfd over{forecast_->fd(), POLLIN, 0};
    return !forecast_->next_due() && poll(&over, 1, 0) == 1;
  }

  std::optional<kernel::CgroupTree> tree_;
  SharedClock clock_;
  FakeProcesses* processes_ = nullptr;
  std::unique_ptr<OomPredictor> forecast_;
};

TEST_F(OomPredictorTest, TheFirstEvaluationStartsARoundWhoseResultStays) {
  evaluate();
  const auto answers = finish();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].path, "/");
  EXPECT_EQ(answers[0].verdict, OomVerdict::kills);
  EXPECT_EQ(answers[0].order, LoopPredictor::TieOrder::none);
  EXPECT_EQ(answers[0].victim, (ProcessId{11, 1}));
  clock_.advance(std::chrono::hours(1));
  const auto right = forecast_->of(node_kill(11, clock_.now()));
  ASSERT_TRUE(right);
  EXPECT_TRUE(right->right);
  EXPECT_EQ(right->victim, (ProcessId{11, 1}));
}

TEST_F(OomPredictorTest, AnAnswerHasTheOrderThatDecidedBetweenEqualPoints) {
  processes_->processes = {process(10, 300), process(11, 300)};
  evaluate();
  auto answers = finish();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].order, LoopPredictor::TieOrder::pid);
  EXPECT_EQ(answers[0].order_problem, "");
  const auto by_pid = answers[0].victim;

  processes_->order_known = true;
  clock_.advance(std::chrono::hours(1));
  evaluate();
  answers = finish();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].order, LoopPredictor::TieOrder::kernel);
  EXPECT_NE(answers[0].victim, by_pid);

  processes_->order_failure = "the program refuses";
  clock_.advance(std::chrono::hours(1));
  evaluate();
  answers = finish();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].order, LoopPredictor::TieOrder::pid);
  EXPECT_EQ(answers[0].order_problem, "the program refuses");
}

TEST_F(OomPredictorTest, AnotherVictimCountsAsUnpredicted) {
  evaluate();
  finish();
  const auto wrong = forecast_->of(node_kill(10, clock_.now()));
  ASSERT_TRUE(wrong);
  EXPECT_FALSE(wrong->right);
  // A reused pid is another process.
  OomKillEvent again = node_kill(11, clock_.now());
  again.victim.start_ticks = 2;
  EXPECT_FALSE(forecast_->of(again));  // used up by the first
}

TEST_F(OomPredictorTest, PredictsTheFirstVictimOnly) {
  processes_->processes[1].memory_id = 5;
  processes_->processes[2].memory_id = 5;  // killed with 11
  evaluate();
  finish();
  EXPECT_TRUE(forecast_->of(node_kill(11, clock_.now()))->right);
  EXPECT_TRUE(forecast_->of(node_kill(12, clock_.now()))->right);
  EXPECT_FALSE(forecast_->of(node_kill(10, clock_.now())));
}

TEST_F(OomPredictorTest, AKillDuringARoundIsAnsweredByTheOneBefore) {
  evaluate();
  finish();
  const MonotonicTime between = clock_.now();
  processes_->processes[1].memory.anon = 1;
  evaluate({}, WakeSource::oom_kill);
  clock_.advance(std::chrono::seconds(1));
  forecast_->time_passed();
  const auto answers = finish();
  ASSERT_EQ(answers.size(), 1u);
  ASSERT_EQ(answers.front().victim, (ProcessId{12, 1}));
  EXPECT_TRUE(forecast_->of(node_kill(11, between))->right);
  EXPECT_TRUE(forecast_->of(node_kill(12, clock_.now()))->right);
}

TEST_F(OomPredictorTest, AnOomInAnotherDomainHasNoPrediction) {
  evaluate();
  finish();
  OomKillEvent kill = node_kill(11, clock_.now());
  kill.constraint = Constraint::memcg;
  kill.domain = {99};
  EXPECT_FALSE(forecast_->of(kill));
  kill.constraint = Constraint::cpuset;
  EXPECT_FALSE(forecast_->of(kill));
  kill.constraint.reset();
  EXPECT_FALSE(forecast_->of(kill));
}

TEST_F(OomPredictorTest, WhenIdleARoundWaitsForAnEvaluationAndCostsATenThousandth) {
  evaluate();
  finish();  // took 10 ms
  clock_.advance(milliseconds(99'999));
  evaluate();
  EXPECT_FALSE(forecast_->next_due());  // nothing wakes up for it
  EXPECT_FALSE(round_runs());
  clock_.advance(milliseconds(1));
  evaluate();
  EXPECT_EQ(finish().size(), 1U);
}

TEST_F(OomPredictorTest, NearALineARoundCostsATwentiethAndWakesTheLoop) {
  evaluate();
  finish();
  const MonotonicTime ended = clock_.now();
  clock_.advance(milliseconds(50));
  evaluate(near_decision());
  EXPECT_EQ(forecast_->next_due(), ended + milliseconds(200));
  clock_.advance(milliseconds(150));
  forecast_->time_passed();
  EXPECT_EQ(finish().size(), 1U);
  EXPECT_FALSE(forecast_->next_due());
}

TEST_F(OomPredictorTest, RequestsDuringARoundWaitForItsLength) {
  evaluate();
  evaluate(near_decision());  // while the first may still run
  EXPECT_EQ(finish().size(), 1U);
  const auto due = forecast_->next_due();
  ASSERT_TRUE(due);
  EXPECT_EQ(*due, clock_.now() + milliseconds(200));
}

}  // namespace
}  // namespace forestall::agent
