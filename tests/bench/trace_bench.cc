// SPDX-License-Identifier: Apache-2.0
// Cost of `forestall trace` for the traced process and for itself, and whether it loses events that
// it does not count; and the same for bpftrace on the same job, in the same run.
//
//   trace_bench FORESTALL [--rounds N] [--seconds S] [--bpftrace PATH]
//
// First, real reclaim: a process in a cgroup of 24 MiB repeatedly reads 64 MiB of cached zeros, so
// that each charge reclaims. Work is counted per CPU second of the worker, in slices, of which the
// best counts. Each round runs without a tracer, again without one (`control`: the difference of
// two equal runs), with the tracer printing each event, with its summary, and with bpftrace; every
// second round in reverse order. The result is the median of the ratios of each round.
//
// Then, maximum load: BPF_PROG_TEST_RUN runs the tracer's own programs of the tracepoints
// mm_vmscan_memcg_reclaim_begin and _end, at 200,000 pairs a second and then as fast as this
// machine can. The number of generated events is compared with the printed and the lost ones.
// Output goes to a pipe that is read.
#include <bpf/bpf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "bench/best_rate.h"
#include "bench/signalled_child.h"
#include "bench/spread.h"
#include "forestall/v1/event.pb.h"
#include "support/child.h"
#include "support/program.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

constexpr double kSliceSeconds = 0.1;  // of CPU time
constexpr int kSlices = 8;
constexpr double kTarget = 0.98;
constexpr std::uint64_t kRate = 200'000;
constexpr std::size_t kFileBytes = std::size_t{64} << 20;

// Reads on command and returns its rate in MiB per CPU second.
class Reader {
 public:
  Reader(ScratchCgroup& scratch, const std::string& path) : child_(reading(path)) {
    const std::string cgroup = scratch.child("work");
    scratch.limit(cgroup, mib(24));
    scratch.add(cgroup, child_.pid());
  }
  [[nodiscard]] double rate() const { return child_.report('r'); }

 private:
  static SignalledChild<char, double>::Act reading(const std::string& path) {
    return [path](char) -> std::optional<double> {
      static const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
      static std::vector<char> chunk(std::size_t{1} << 20);
      static off_t at = 0;
      bool reads = true;
      const double rate = best_rate(kSlices, kSliceSeconds, [&] {
        reads = reads && pread(file, chunk.data(), chunk.size(), at) > 0;
        at = (at + static_cast<off_t>(chunk.size())) % static_cast<off_t>(kFileBytes);
      });
      return reads ? std::optional(rate) : std::nullopt;
    };
  }

  SignalledChild<char, double> child_;
};

// A tracer; a thread of this process reads its output.
class Tracer {
 public:
  explicit Tracer(std::vector<std::string> command) : Tracer(std::move(command), pipe_ends()) {}
  Tracer(const Tracer&) = delete;
  ~Tracer() {
    if (thread_.joinable()) stop();
  }

  [[nodiscard]] pid_t pid() const { return child_.pid(); }
  // Ends it and waits for the last of its output.
  void stop() {
    kill(child_.pid(), SIGINT);
    thread_.join();
    if (child_.wait_exit()) child_.reap();
  }
  // The first output comes when it is attached.
  void wait_ready() const {
    while (bytes_ == 0) {
      pollfd nothing{-1, 0, 0};
      poll(&nothing, 1, 10);
    }
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // All of its output, after its end; long output is cut to its last 64 KiB.
  [[nodiscard]] const std::string& tail() const { return tail_; }
  [[nodiscard]] std::uint64_t lines() const { return lines_; }

  [[nodiscard]] double cpu_ms() const { return cpu_ms_of(child_.pid()); }
  // The program attached to a raw tracepoint.
  [[nodiscard]] UniqueFd program_of(const std::string& tracepoint) const {
    const auto all = fmt::format("/proc/{}/fdinfo", child_.pid());
    for (const auto& each : std::filesystem::directory_iterator(all)) {
      const std::string text = read_text(each.path());
      if (text.find("tp_name:\t" + tracepoint + "\n") == std::string::npos) continue;
      const auto at = text.find("prog_id:");
      if (at == std::string::npos) continue;
      return UniqueFd(bpf_prog_get_fd_by_id(
          static_cast<__u32>(std::strtoul(text.c_str() + at + 8, nullptr, 10))));
    }
    return UniqueFd();
  }
  // In all its BPF programs so far, and how often they ran; needs bpf_enable_stats().
  [[nodiscard]] std::pair<double, double> bpf_ns_and_runs() const {
    double ns = 0;
    double runs = 0;
    const auto all = fmt::format("/proc/{}/fdinfo", child_.pid());
    for (const auto& each : std::filesystem::directory_iterator(all)) {
      const std::string text = read_text(each.path());
      const auto time = text.find("run_time_ns:");
      const auto count = text.find("run_cnt:");
      if (time == std::string::npos || count == std::string::npos) continue;
      ns += std::strtod(text.c_str() + time + 12, nullptr);
      runs += std::strtod(text.c_str() + count + 8, nullptr);
    }
    return {ns, runs};
  }

 private:
  static std::array<int, 2> pipe_ends() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    return ends;
  }
  Tracer(std::vector<std::string> command, std::array<int, 2> ends)
      : output_(ends[0]), child_([&] {
          prctl(PR_SET_PDEATHSIG, SIGKILL);
          return run_program(std::move(command), ends[1], ends[1]);
        }) {
    close(ends[1]);
    thread_ = std::thread([this] { drain(); });
  }
  void drain() {
    std::vector<char> chunk(std::size_t{1} << 20);
    for (;;) {
      const ssize_t got = read(output_.get(), chunk.data(), chunk.size());
      if (got <= 0) return;
      const std::string_view part(chunk.data(), static_cast<std::size_t>(got));
      lines_ += static_cast<std::uint64_t>(std::ranges::count(part, '\n'));
      tail_.append(part);
      if (tail_.size() > (std::size_t{4} << 20)) tail_.erase(0, tail_.size() - (64 << 10));
      bytes_ += part.size();
    }
  }

  const UniqueFd output_;
  std::atomic<std::uint64_t> bytes_{0};
  std::uint64_t lines_ = 0;
  std::string tail_;
  Child child_;
  std::thread thread_;
};

// Reads the last event of a delimited protobuf stream from its tail: the end of a trace is the one
// message that parses to the very end and contains totals.
v1::TraceEndEvent end_of(const std::string& tail) {
  for (std::size_t at = tail.size(); at-- > 0;) {
    google::protobuf::io::ArrayInputStream input(tail.data() + at,
                                                 static_cast<int>(tail.size() - at));
    v1::Event event;
    bool clean = false;
    if (!google::protobuf::util::ParseDelimitedFromZeroCopyStream(&event, &input, &clean)) continue;
    if (static_cast<std::size_t>(input.ByteCount()) == tail.size() - at && event.has_trace_end()) {
      return event.trace_end();
    }
  }
  throw std::runtime_error("the trace has no end");
}

const std::string kBpftrace =
    "rawtracepoint:mm_vmscan_memcg_reclaim_begin { @b[tid] = nsecs }\n"
    "rawtracepoint:mm_vmscan_memcg_reclaim_end /@b[tid]/ {\n"
    "  printf(\"%llu %d %s %llu %llu %llu\\n\", nsecs, tid, comm, cgroup, nsecs - @b[tid], arg0);\n"
    "  delete(@b[tid]) }\n"
    "BEGIN { printf(\"ready\\n\") }\n";

struct Kind {
  std::string name;
  std::vector<std::string> command;  // none: no tracer
};

// Some versions of bpftrace lack a probe, and some machines refuse to load one.
bool can_do_it(const std::vector<std::string>& command) {
  Tracer tracer(command);
  tracer.wait_ready();
  tracer.stop();
  const bool can = tracer.tail().find("ready") != std::string::npos;
  if (!can) fmt::print("bpftrace cannot do it here, and is left out: {}", tracer.tail());
  return can;
}

std::vector<Kind> kinds_of(const std::string& forestall, const std::string& bpftrace) {
  const std::vector<std::string> trace{forestall,       "trace", "--no-agent", "--kind",
                                       "memcg-reclaim", "-o",    "pb"};
  std::vector<std::string> summary = trace;
  summary.insert(summary.end(), {"--summary", "1s"});
  std::vector<Kind> kinds{{"off", {}}, {"control", {}}, {"trace", trace}, {"summary", summary}};
  const std::vector<std::string> peer{bpftrace, "-e", kBpftrace};
  if (!bpftrace.empty() && can_do_it(peer)) kinds.push_back({"bpftrace", peer});
  return kinds;
}

// What one kind did in each round.
struct Reclaimed {
  std::vector<double> rates;
  std::vector<double> cpu, bpf, runs;  // of the tracer; of its programs
};

// Measures the rate of the work first, then the cost of the tracer and its programs: the kernel's
// clock for these reads the time twice per run, which is a cost of its own.
void reclaim_beside(const Kind& kind, const Reader& reader, Reclaimed& out) {
  if (kind.command.empty()) {
    out.rates.push_back(reader.rate());
    return;
  }
  Tracer tracer(kind.command);
  tracer.wait_ready();
  out.rates.push_back(reader.rate());
  const UniqueFd stats(bpf_enable_stats(BPF_STATS_RUN_TIME));
  const double cpu_before = tracer.cpu_ms();
  const auto [ns_before, runs_before] = tracer.bpf_ns_and_runs();
  const MonotonicTime began = SystemClock().now();
  (void)reader.rate();
  const double took_ms = to_ms(SystemClock().now() - began);
  const auto [ns, runs] = tracer.bpf_ns_and_runs();
  out.cpu.push_back((tracer.cpu_ms() - cpu_before) / took_ms);
  out.bpf.push_back((ns - ns_before) / (kSliceSeconds * kSlices * 1e9));
  out.runs.push_back((runs - runs_before) / took_ms * 1000);
  tracer.stop();
}

std::vector<double> ratios(const std::vector<double>& rates, const std::vector<double>& off) {
  std::vector<double> ratios;
  std::ranges::transform(rates, off, std::back_inserter(ratios), std::divides());
  return ratios;
}

void real_reclaim(const std::vector<Kind>& kinds, int rounds) {
  ScratchCgroup scratch;
  TempTree directory;
  const std::string file = directory / "zeros";
  const UniqueFd made(open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  if (ftruncate(made.get(), kFileBytes) != 0) throw std::runtime_error("ftruncate " + file);
  const Reader reader(scratch, file);
  (void)reader.rate();
  std::map<std::string, Reclaimed> all;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const Kind& kind = kinds[round % 2 == 0 ? i : kinds.size() - 1 - i];
      reclaim_beside(kind, reader, all[kind.name]);
    }
  }
  fmt::print("real reclaim, {} rounds: speed of the work, of that without a tracer\n", rounds);
  for (const Kind& kind : kinds) {
    if (kind.name == "off") continue;
    const Reclaimed& did = all[kind.name];
    const Spread speed = spread_of(ratios(did.rates, all["off"].rates));
    fmt::print("  {:<9} {:>7.2f} % ({:.2f}..{:.2f})", kind.name, speed.median * 100,
               speed.lower * 100, speed.upper * 100);
    if (!kind.command.empty()) {
      fmt::print(
          "; in its BPF programs {:.3f} %, runs of them a second {:.0f}, tracer {:.1f} % of "
          "a CPU",
          spread_of(did.bpf).median * 100, spread_of(did.runs).median,
          spread_of(did.cpu).median * 100);
    }
    fmt::print("{}\n", speed.median < kTarget ? "  below 98 %" : "");
    fmt::print("@metric trace_speed_{} {:.4f}\n", kind.name, speed.median);
  }
}

// Runs a pair of programs for some time, at a rate or (0) as fast as possible; returns the number
// of pairs.
std::uint64_t make_events(int begin, int end, std::uint64_t rate, double seconds) {
  std::array<__u64, 4> arguments{32, 0, 0, 0};
  LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = arguments.data(),
              .ctx_size_in = sizeof(arguments));
  const MonotonicTime began = SystemClock().now();
  std::uint64_t made = 0;
  for (;;) {
    const double passed = to_ms(SystemClock().now() - began) / 1000;
    if (passed >= seconds) return made;
    const auto due = static_cast<std::uint64_t>(passed * static_cast<double>(rate));
    if (rate > 0 && made >= due) {
      const timespec wait{0, 200'000};
      ppoll(nullptr, 0, &wait, nullptr);
      continue;
    }
    const std::uint64_t batch = rate > 0 ? due - made : 1000;
    for (std::uint64_t i = 0; i < batch; ++i) {
      if (bpf_prog_test_run_opts(begin, &options) != 0 ||
          bpf_prog_test_run_opts(end, &options) != 0) {
        throw std::runtime_error(fmt::format("BPF_PROG_TEST_RUN: {}", std::strerror(errno)));
      }
    }
    made += batch;
  }
}

void many_events(const Kind& kind, std::uint64_t rate, double seconds) {
  Tracer tracer(kind.command);
  tracer.wait_ready();
  const UniqueFd begin = tracer.program_of("mm_vmscan_memcg_reclaim_begin");
  const UniqueFd end = tracer.program_of("mm_vmscan_memcg_reclaim_end");
  if (!begin || !end) {
    fmt::print("  {:<9} its programs cannot be found\n", kind.name);
    return;
  }
  const double cpu_before = tracer.cpu_ms();
  const auto bpf_before = tracer.bpf_ns_and_runs();
  const std::uint64_t lines_before = tracer.lines();
  const MonotonicTime began = SystemClock().now();
  const std::uint64_t made = make_events(begin.get(), end.get(), rate, seconds);
  const double took_ms = to_ms(SystemClock().now() - began);
  const double cpu = (tracer.cpu_ms() - cpu_before) / took_ms;
  const auto bpf_after = tracer.bpf_ns_and_runs();
  const double per_event = (bpf_after.first - bpf_before.first) / static_cast<double>(made);
  tracer.stop();
  fmt::print("  {:<9} {:>9.0f} events a second: ", kind.name,
             static_cast<double>(made) / took_ms * 1000);
  if (kind.name == "bpftrace") {
    const auto at = tracer.tail().rfind("Lost ");
    const std::uint64_t reported = tracer.lines() - lines_before;
    fmt::print("{} made, about {} lines, {}", made, reported,
               at == std::string::npos
                   ? "no loss reported"
                   : tracer.tail().substr(at, tracer.tail().find('\n', at) - at));
  } else {
    const v1::TraceEndEvent totals = end_of(tracer.tail());
    const v1::SpanTotal& total = totals.totals(0);
    // The machine may have reclaimed as well.
    const std::uint64_t missing =
        kind.name == "summary"
            ? 0  // prints none of them; its counter has them all
            : total.count() - total.reported() - total.dropped() - total.passed_over();
    fmt::print("{} made, {} counted, {} printed, {} lost and counted, {} lost and not", made,
               total.count(), total.reported(), total.dropped(), missing);
    if (total.count() < made) fmt::print(", {} NOT SEEN", made - total.count());
    fmt::print("\n@metric {}_lost_{} {}\n@metric {}_uncounted_{} {}\n           ", kind.name, rate,
               total.dropped(), kind.name, rate, missing + (made - std::min(made, total.count())));
  }
  fmt::print("; {:.0f} ns of BPF a pair, tracer {:.1f} % of a CPU\n", per_event, cpu * 100);
  fmt::print("@metric trace_cpu_{}_{} {:.4f}\n", kind.name, rate, cpu);
}

int usage() {
  fmt::print(stderr, "usage: trace_bench FORESTALL [--rounds N] [--seconds S] [--bpftrace PATH]\n");
  return 2;
}

int main_of(int argc, char** argv) {
  if (argc < 2 || argc % 2 != 0) return usage();
  int rounds = 9;
  double seconds = 10;
  std::string bpftrace;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    if (option == "--rounds") {
      rounds = std::atoi(argv[i + 1]);
    } else if (option == "--seconds") {
      seconds = std::atof(argv[i + 1]);
    } else if (option == "--bpftrace") {
      bpftrace = argv[i + 1];
    } else {
      return usage();
    }
  }
  if (rounds < 1 || seconds <= 0) return usage();
  const auto kinds = kinds_of(argv[1], bpftrace);
  real_reclaim(kinds, rounds);
  const UniqueFd stats(bpf_enable_stats(BPF_STATS_RUN_TIME));
  fmt::print("events made by BPF_PROG_TEST_RUN of the tracer's own programs, {} s each\n", seconds);
  for (const std::uint64_t rate : {kRate, std::uint64_t{0}}) {
    for (const Kind& kind : kinds) {
      if (!kind.command.empty()) many_events(kind, rate, seconds);
    }
  }
  return 0;
}

}  // namespace
}  // namespace forestall::test

int main(int argc, char** argv) {
  // Unwinding removes the scratch cgroups.
  try {
    return forestall::test::main_of(argc, argv);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "trace_bench: {}\n", failure.what());
    return 1;
  }
}
