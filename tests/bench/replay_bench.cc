// SPDX-License-Identifier: Apache-2.0
// Lines a second of `forestall replay`, and the time by stage, for an evaluation of the node alone
// and for one with 30 pods. For comparison: simdjson's bare parse of the same bytes in the same
// run, close to the minimum for any reader of JSON.
//
//   replay_bench [lines]
#include <fmt/format.h>
#include <simdjson.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>

#include "messages/convert.h"
#include "messages/json.h"
#include "messages/json_reader.h"
#include "messages/observation_line.h"
#include "replay/replay_fold.h"
#include "replay/replay_input.h"
#include "replay/replay_report.h"

namespace forestall::replay {
namespace {

WorkloadSample pod(int number) {
  const std::string digits = std::to_string(number);
  WorkloadSample sample;
  sample.workload.cgroup = {static_cast<std::uint64_t>(1000 + number)};
  sample.workload.path = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" +
                         digits + "_0c1d_4e5f_8a9b_0123456789ab.slice";
  sample.workload.kind = WorkloadKind::pod;
  sample.workload.name = "default/pod-" + digits;
  sample.workload.pod_uid = digits + "-0c1d-4e5f-8a9b-0123456789ab";
  sample.workload.priority = 0;
  sample.workload.memory_request = mib(100);
  sample.usage = mib(200 + number);
  sample.inactive_file = mib(10);
  sample.processes = 5;
  return sample;
}

// A whole observation of a node, as the agent writes it.
Observation node(std::int64_t seconds, int pods) {
  Observation observation;
  observation.at = from_ns(seconds * 1'000'000'000);
  observation.wake.at = observation.at;
  observation.node = {gib(16), gib(12), mib(500), gib(3), Bytes{0}, Bytes{0}, std::nullopt};
  observation.pods = CgroupSample{{77}, "/kubepods.slice", gib(10), mib(100), gib(15), {}, 0};
  observation.filesystems.layout = FilesystemLayout::single;
  observation.filesystems.nodefs = {gib(50), gib(100), 1'000'000, 6'000'000, std::nullopt};
  observation.tasks = {32768, 500, std::nullopt};
  if (pods == 0) return observation;
  observation.workloads.emplace();
  for (int i = 0; i < pods; ++i) observation.workloads->push_back(pod(i));
  return observation;
}

Config kubelet_default() {
  Config config;
  Threshold threshold;
  threshold.limit = Limit::bytes(mib(100));
  config.thresholds.push_back(threshold);
  threshold.signal = Signal::nodefs_available;
  threshold.limit = Limit::share(0.1F);
  config.thresholds.push_back(threshold);
  return config;
}

template <typename Work>
double seconds(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void require(bool holds, const char* what) {
  if (holds) return;
  fmt::print(stderr, "replay_bench: {}\n", what);
  std::exit(1);
}

struct Row {
  const char* stage;
  double seconds;
};

// Runs `work` on `lines` lines of the same text.
template <typename Work>
double each_line(std::int64_t lines, const std::string& line, Work work) {
  const std::string padded = line + std::string(messages::JsonReader::kPadding, ' ');
  const std::string_view text = std::string_view(padded).substr(0, line.size());
  return seconds([&] {
    for (std::int64_t i = 0; i < lines; ++i) require(work(text), "a line was refused");
  });
}

double whole_replay(const std::string& file, std::int64_t lines) {
  return seconds([&] {
    auto input = ReplayInput::open(file);
    require(input.ok(), "the file cannot be read");
    ReplayFold fold(kubelet_default());
    ReplayText report(false);
    std::string out;
    for (;;) {
      auto next = input->next();
      require(next.ok(), "a line was refused");
      if (!*next) break;
      const Decision decision = fold.take((*next)->observation);
      report.evaluation(
          {(*next)->line, {}, (*next)->observation, decision, fold.changed(), nullptr}, out);
    }
    require(fold.counts().observations == static_cast<std::uint64_t>(lines), "lines were lost");
  });
}

long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void measure(int pods, std::int64_t lines) {
  const std::string line =
      messages::to_json(messages::to_proto(node(1, pods)), messages::JsonStyle::line);
  const std::string file = fmt::format("/tmp/replay_bench.{}.jsonl", getpid());
  {
    std::ofstream out(file, std::ios::binary);
    for (std::int64_t i = 0; i < lines; ++i) {
      out << messages::to_json(messages::to_proto(node(i, pods)), messages::JsonStyle::line)
          << '\n';
    }
  }
  const long before = peak_kib();
  const double replay = whole_replay(file, lines);
  const long grown = peak_kib() - before;
  unlink(file.c_str());

  simdjson::dom::parser parser;
  const double bare = each_line(lines, line, [&](std::string_view text) {
    return parser.parse(text.data(), text.size(), false).error() == simdjson::SUCCESS;
  });
  messages::JsonReader reader;
  v1::Observation message;
  const double json = each_line(
      lines, line, [&](std::string_view text) { return reader.read(text, message).ok(); });
  messages::ObservationLineReader observations;
  const double model =
      each_line(lines, line, [&](std::string_view text) { return observations.read(text).ok(); });
  fmt::print("{} pods, {} lines of {} bytes; peak memory grew by {} KiB during the replay\n", pods,
             lines, line.size(), grown);
  for (const Row row : {Row{"simdjson, bare parse", bare}, Row{"into the message", json},
                        Row{"into the model", model}, Row{"replay: file to text", replay}}) {
    fmt::print("  {:22} {:9.0f} lines/s {:8.2f} us/line {:7.1f} times the bare parse\n", row.stage,
               static_cast<double>(lines) / row.seconds,
               row.seconds * 1e6 / static_cast<double>(lines), row.seconds / bare);
  }
}

}  // namespace
}  // namespace forestall::replay

int main(int argc, char** argv) {
  const std::int64_t lines = argc > 1 ? std::atoll(argv[1]) : 1'000'000;
  forestall::replay::measure(0, lines);
  forestall::replay::measure(30, lines / 20);
  return 0;
}
