// SPDX-License-Identifier: Apache-2.0
// Cost of recording an agent under heavy pressure, and of replaying the recording.
//
//   recording_bench [seconds] [workloads]   makes a recording: the real agent, and leaks that start
//                                           again after each kill, in a scratch cgroup with a
//                                           limit; then measures it as below
//   recording_bench encode                  the loop's time per evaluation, by number of workloads
//   recording_bench FILE                    bytes per entry and per evaluation, replay against
//                                           real time, and 100 cuts at random places, each read
//                                           up to the cut
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <random>

#include "recording/segments.h"
#include "replay/recording_replay.h"
#include "replay/replay_report.h"
#include "support/agent_run.h"
#include "support/allocation_count.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

[[noreturn]] void fail(const std::string& what) {
  fmt::print(stderr, "recording_bench: {}\n", what);
  std::exit(1);
}

void require(bool holds, const char* what) {
  if (!holds) fail(what);
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// ---- making one ----

constexpr Bytes kLimit = mib(256);
constexpr Bytes kThreshold = mib(64);
constexpr int kLeaks = 3;  // at a time

// Workloads, most of them constant, and some that leak until they are killed.
class Pressure {
 public:
  explicit Pressure(int workloads) : workloads_(workloads) {
    scratch.limit(scratch.path(), kLimit);
    for (int i = 0; i < workloads; ++i) scratch.child(name(i));
    for (int i = kLeaks; i < workloads; ++i) {
      steady_.emplace_back(scratch, scratch.path() + "/" + name(i), kib(256));
    }
    for (int i = 0; i < kLeaks; ++i) begin_leak(i);
  }

  [[nodiscard]] std::string config(const std::string& ring) const {
    std::string text = fmt::format(
        "evictionHard: {{}}\npods: {{enabled: false}}\nreleaseTimeout: 20s\n"
        "recording: {{directory: {}, maxSize: 1Gi}}\n"
        "watch:\n  - {{cgroup: {}, available: {}Mi}}\nworkloads:\n",
        ring, scratch.path(), kThreshold.count >> 20);
    for (int i = 0; i < workloads_; ++i) {
      text += fmt::format("  - {{cgroup: {}/{}, priority: {}, memoryRequest: {}Mi}}\n",
                          scratch.path(), name(i), i < kLeaks ? 0 : 100, 1);
    }
    return text;
  }

  // Restarts each killed leak until the time is over. Returns the number of starts.
  int go_on(double seconds) {
    const auto begin = std::chrono::steady_clock::now();
    int ended = 0;
    while (seconds_since(begin) < seconds) {
      std::array<pollfd, kLeaks> ends{};
      for (int i = 0; i < kLeaks; ++i) ends[i] = {leaks_[i]->child().pidfd(), POLLIN, 0};
      poll(ends.data(), ends.size(), 1000);
      for (int i = 0; i < kLeaks; ++i) {
        if (ends[i].revents == 0) continue;
        ++ended;
        begin_leak(i);
      }
    }
    return ended;
  }

  ScratchCgroup scratch;

 private:
  static std::string name(int i) { return fmt::format("workload-{:04}", i); }
  // At 40 to 160 MiB a second.
  void begin_leak(int i) {
    leaks_[i].reset();
    leaks_[i].emplace(scratch, scratch.path() + "/" + name(i), mib(1));
    leaks_[i]->leak(Bytes{0}, mib(40 * (i + 1) + i * 20));
  }

  int workloads_;
  std::deque<Hog> steady_;
  std::array<std::optional<Hog>, kLeaks> leaks_;
};

void make_recording(double seconds, int workloads, const std::string& ring) {
  Pressure pressure(workloads);
  AgentRun agent(pressure.config(ring), {}, {});
  if (agent.failure()) fail(agent.failure()->text());
  const int ended = pressure.go_on(seconds);
  kill(agent.process().pid(), SIGTERM);
  require(agent.process().wait_end(SystemClock().now() + kPatience).has_value(),
          "the agent did not end");
  fmt::print("{:.0f} s of pressure among {} workloads: {} leaks ended, {} by the kernel\n", seconds,
             workloads, ended, pressure.scratch.oom_kills(pressure.scratch.path()));
}

// ---- measuring one ----

struct Measured {
  std::uint64_t evaluations = 0;
  std::uint64_t with_workloads = 0;
  std::uint64_t different = 0;
  double took = 0;      // seconds, for all of it
  double recorded = 0;  // seconds, from the first evaluation to the last
  replay::RecordingInput::Counts counts;
};

Measured replay(const std::string& path) {
  const auto begin = std::chrono::steady_clock::now();
  auto input = replay::RecordingInput::open(path);
  if (!input) fail(input.error().text());
  replay::RecordingReplay run(std::move(*input), {});
  replay::ReplayText report(false, "evaluation");
  std::string out;
  Measured measured;
  std::optional<MonotonicTime> first, last;
  for (;;) {
    auto step = run.next();
    if (!step) fail(step.error().text());
    if (!*step) break;
    const Observation& observation = (*step)->evaluated.observation;
    first = first.value_or(observation.at);
    last = observation.at;
    measured.with_workloads += observation.workloads ? 1 : 0;
    report.evaluation({(*step)->evaluation, observation.at - *first, observation, (*step)->decision,
                       run.fold().changed(), &**step},
                      out);
  }
  measured.took = seconds_since(begin);
  measured.evaluations = run.same() + run.different();
  measured.different = run.different() + run.states_different();
  measured.counts = run.input().counts();
  if (first) measured.recorded = std::chrono::duration<double>(*last - *first).count();
  return measured;
}

void measure(const std::string& path) {
  Measured best = replay(path);
  for (int i = 0; i < 2; ++i) {
    const Measured again = replay(path);
    if (again.took < best.took) best = again;
  }
  const auto per = [](std::uint64_t bytes, std::uint64_t count) {
    return count == 0 ? 0.0 : static_cast<double>(bytes) / static_cast<double>(count);
  };
  const auto& counts = best.counts;
  fmt::print("{} evaluations ({} with workloads) in {:.1f} s, {} entries, {} chunks, {} lost\n",
             best.evaluations, best.with_workloads, best.recorded, counts.entries, counts.chunks,
             counts.lost);
  fmt::print("{} bytes: {:.1f} per entry, {:.1f} per evaluation; {:.1f} per entry before packing\n",
             counts.file_bytes, per(counts.file_bytes, counts.entries),
             per(counts.file_bytes, best.evaluations), per(counts.entry_bytes, counts.entries));
  fmt::print(
      "replay: {:.3f} s, {:.1f} us per evaluation, {:.0f} x real time; {} decisions different\n",
      best.took, best.took * 1e6 / static_cast<double>(best.evaluations), best.recorded / best.took,
      best.different);
}

// ---- cutting one ----

std::uint64_t entries_within(const std::string& path, std::uint64_t size) {
  auto reader = std::move(recording::Reader::open(path).value());
  std::uint64_t entries = 0;
  while (const auto chunk = reader.next().value()) {
    const auto end = chunk->place.offset + recording::kChunkHeaderSize + chunk->header.stored_size;
    if (end <= size) entries += chunk->header.count;
  }
  return entries;
}

void cut(const std::string& path) {
  const std::uint64_t size = std::filesystem::file_size(path);
  auto whole = std::move(recording::Reader::open(path).value());
  const std::uint64_t first = recording::kFileHeaderSize + whole.header().facts.size();
  const TempTree tree;
  const std::string copy = tree / "cut";
  std::filesystem::copy_file(path, copy);
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> offsets;
  for (int i = 0; i < 100; ++i) offsets.push_back(first + random() % (size - first));
  std::ranges::sort(offsets, std::greater<>());
  int read_up_to = 0;
  int reported = 0;
  for (const std::uint64_t offset : offsets) {
    std::filesystem::resize_file(copy, offset);
    auto reader = std::move(recording::Reader::open(copy).value());
    std::uint64_t entries = 0;
    while (const auto chunk = reader.next().value()) entries += chunk->header.count;
    read_up_to += entries == entries_within(path, offset) && reader.damages().empty() ? 1 : 0;
    reported += !reader.is_complete() ? 1 : 0;
  }
  fmt::print("cut at 100 random places: {} read up to the cut, {} reported\n", read_up_to,
             reported);
}

// ---- the loop's part ----

Record evaluate_at(int workloads, std::int64_t turn) {
  Record record;
  record.observation.at = from_ns(turn * 1'000'000);
  record.observation.node = {gib(16), gib(12), mib(500), gib(3), Bytes{0}, Bytes{0}, std::nullopt};
  record.observation.pods =
      CgroupSample{{77}, "/kubepods.slice", gib(10), mib(100), gib(15), {}, 0};
  Evidence evidence;
  evidence.threshold.limit = Limit::bytes(mib(100));
  evidence.subject = "node";
  record.decision.evidence.assign(3, evidence);
  if (workloads == 0) return record;
  record.observation.workloads.emplace();
  for (int i = 0; i < workloads; ++i) {
    WorkloadSample sample;
    sample.workload.cgroup = {static_cast<std::uint64_t>(1000 + i)};
    sample.workload.path = fmt::format("/kubepods.slice/kubepods-burstable.slice/pod{}-0c1d", i);
    sample.workload.kind = WorkloadKind::pod;
    sample.workload.pod_uid = fmt::format("{}-0c1d-4e5f-8a9b-0123456789ab", i);
    sample.workload.name = fmt::format("default/pod-{}", i);
    sample.usage = mib(200 + i) + Bytes{turn * 4096};
    sample.inactive_file = mib(10);
    record.observation.workloads->push_back(sample);
    record.decision.considered.push_back({std::move(sample), {}, Exclusion::none});
  }
  return record;
}

void measure_encoding(int workloads) {
  constexpr int kTurns = 2000;
  messages::EntryEncoder encoder;
  const Record first = evaluate_at(workloads, 0);
  const Record second = evaluate_at(workloads, 1);
  (void)encoder.evaluation(first);
  (void)encoder.evaluation(second);
  std::uint64_t bytes = 0;
  const std::uint64_t before = allocation_count();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kTurns; ++i) {
    for (const std::string_view entry : encoder.evaluation(i % 2 == 0 ? first : second)) {
      bytes += entry.size();
    }
  }
  const double took = seconds_since(begin);
  fmt::print("{:4} workloads: {:7.1f} us per evaluation, {:6} bytes, {:5.1f} allocations\n",
             workloads, took * 1e6 / kTurns, bytes / kTurns,
             static_cast<double>(allocation_count() - before) / kTurns);
}

int run(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "600";
  if (first == "encode") {
    for (const int workloads : {0, 3, 30, 300}) measure_encoding(workloads);
    return 0;
  }
  if (first.find('/') != std::string::npos) {
    measure(first);
    if (std::filesystem::is_regular_file(first)) cut(first);
    return 0;
  }
  const std::filesystem::path ring =
      std::filesystem::temp_directory_path() / fmt::format("recording_bench.{}", getpid());
  make_recording(std::atof(first.c_str()), argc > 2 ? std::atoi(argv[2]) : 30, ring);
  fmt::print("kept in {}\n", ring.string());
  measure(ring);
  const auto names = recording::segment_names(ring);
  cut(ring / names.value().back());
  return 0;
}

}  // namespace
}  // namespace forestall::test

int main(int argc, char** argv) {
  return forestall::test::run(argc, argv);
}
