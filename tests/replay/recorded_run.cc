// SPDX-License-Identifier: Apache-2.0
#include "replay/recorded_run.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "policy/conditions.h"
#include "tests/policy/world.h"

namespace forestall::test {
namespace {

messages::RecordingFacts facts(const Boot& boot) {
  messages::RecordingFacts facts;
  facts.version = "0";
  facts.pid = 1;
  facts.boot_id = boot.id;
  facts.tier = Tier::files;
  return facts;
}

MemoryPressure no_pressure(MonotonicTime at) {
  MemoryPressure pressure;
  pressure.at = at;
  return pressure;
}

}  // namespace

RecordedRun::RecordedRun(const recording::Target& target, Config config, policy::State state,
                         Boot boot)
    : log_(exports::Log::Stream::standard_error, /*stamped=*/false, exports::LogLevel::error),
      recorder_(log_, drops_, no_pressure),
      config_(std::move(config)),
      state_(std::move(state)),
      boot_(std::move(boot)) {
  const auto started = recorder_.start(target, facts(boot_), Duration::zero());
  EXPECT_TRUE(started) << started.error().text();
}

RecordedRun::~RecordedRun() {
  if (recorder_.totals()) (void)end();
}

Decision RecordedRun::evaluate(const Observation& observation) {
  policy::Step step = policy::step(config_, state_, observation);
  const policy::State before = std::exchange(state_, std::move(step.state));
  report(observation, step.decision, before, false);
  return step.decision;
}

Decision RecordedRun::sample_subjects(const Observation& observation) {
  policy::Step step = policy::step(config_, state_, observation);
  Decision decision = std::move(step.decision);
  for (ConditionStatus& status : decision.conditions) status.changed = false;
  report(observation, decision, state_, true);
  policy::keep_pressure(step.state.conditions, state_.conditions);
  return decision;
}

void RecordedRun::misrecord(const Observation& observation, const Decision& decision) {
  policy::Step step = policy::step(config_, state_, observation);
  const policy::State before = std::exchange(state_, std::move(step.state));
  report(observation, decision, before, false);
}

void RecordedRun::report(const Observation& observation, Decision decision,
                         const policy::State& before, bool prepared) {
  Record record;
  record.observation = observation;
  record.decision = std::move(decision);
  record.wall_time_ns = boot_.wall_offset.count() + to_ns(observation.at);
  record.stages.decided = observation.at;
  if (prepared) record.prepared = Prepared{};
  // The writer's thread is slower than this test, which records a day in a second: wait for it.
  while (recorder_.totals() && recorder_.totals()->queued_bytes > (1U << 19)) {
    std::this_thread::yield();
  }
  recorder_.passed({config_, reloads_, before, record});
  if (record.decision.evictions.empty()) return;
  record.sequence = ++sequence_;
  recorder_.write(record);
}

void RecordedRun::workload_sample(MonotonicTime at, const std::vector<WorkloadSample>& workloads) {
  recorder_.sampled({at, Duration::zero(), workloads});
}

void RecordedRun::reload(Config config) {
  state_ = policy::reconfigured(config_, config, state_);
  config_ = std::move(config);
  ++reloads_;
}

recording::WriterTotals RecordedRun::end() {
  auto totals = recorder_.stop();
  EXPECT_TRUE(totals) << totals.error().text();
  return totals ? *totals : recording::WriterTotals{};
}

void record_ring_across_a_reboot(const std::string& folder, const std::optional<Config>& reloaded) {
  using namespace std::chrono_literals;
  const Boot first;
  const Boot second{"second", first.wall_offset + 120s + 60s - 10s};
  for (const auto& [boot, start] : {std::pair{first, 100}, std::pair{second, 10}}) {
    RecordedRun run({folder, false, mib(1)}, {}, {}, boot);
    for (int i = 0; i <= 20; ++i) {
      Observation observation;
      observation.at = policy::second(start + i);
      if (i == 5 && reloaded) run.reload(*reloaded);
      run.evaluate(observation);
    }
  }
}

}  // namespace forestall::test
