// SPDX-License-Identifier: Apache-2.0
// Cost of an idle agent for other processes and for itself.
//
//   overhead_bench FORESTALL [--rounds N] [--cgroups N[,N...]]
//
// A scratch cgroup holds N idle cgroups (default 1000 and 10,000), each a workload of the agent,
// and one that works:
//   faults   map 4 MiB, touch each page, unmap
//   malloc   allocate and free pieces of 64 B to 64 KiB, 2 MiB at a time
//   cache    write a file of 4 MiB, read it, drop it from the page cache
// Each round does all three without an agent, then with an agent of the files tier (BPF disabled),
// then with one of the tier of this host, in dry-run mode. Work is counted per CPU second of the
// worker, in slices. The best slice counts, because other load can only slow one down. Every second
// round runs in reverse order. The result is the median of the ratios to the same round without an
// agent. Agents print text, as a service does; starting them is not measured. A second run without
// an agent, `control`, shows the difference of two equal runs, which on a busy machine exceeds the
// effect. Exact in any case is the kernel's time in the agent's BPF programs, for this work and all
// other work of the machine, as a share of the work's CPU time.
#include <bpf/bpf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "base/parse.h"
#include "bench/best_rate.h"
#include "bench/signalled_child.h"
#include "bench/spread.h"
#include "support/child.h"
#include "support/program.h"
#include "support/scratch_cgroup.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kRegion = std::size_t{4} << 20;
constexpr double kSliceSeconds = 0.05;  // of CPU time
constexpr int kSlices = 12;             // of one work in one round
constexpr double kTarget = 0.995;

const std::vector<std::string> kWorks{"faults", "malloc", "cache"};

void do_faults() {
  void* area = mmap(nullptr, kRegion, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) std::abort();
  madvise(area, kRegion, MADV_NOHUGEPAGE);
  auto* bytes = static_cast<volatile unsigned char*>(area);
  for (std::size_t at = 0; at < kRegion; at += kPage) bytes[at] = 1;
  munmap(area, kRegion);
}

void do_malloc() {
  std::vector<void*> pieces;
  std::uint32_t dice = 1;
  for (std::size_t taken = 0; taken < kRegion / 2;) {
    dice = dice * 1664525 + 1013904223;
    const std::size_t size = std::size_t{64} << (dice >> 24) % 11;
    void* piece = std::malloc(size);
    if (piece == nullptr) std::abort();
    *static_cast<volatile unsigned char*>(piece) = 1;
    pieces.push_back(piece);
    taken += size;
  }
  for (void* piece : pieces) std::free(piece);
}

void do_cache(int file) {
  static std::vector<char> chunk(std::size_t{256} << 10, 'x');
  const auto step = static_cast<off_t>(chunk.size());
  for (off_t at = 0; at < static_cast<off_t>(kRegion); at += step) {
    if (pwrite(file, chunk.data(), chunk.size(), at) != step) std::abort();
  }
  for (off_t at = 0; at < static_cast<off_t>(kRegion); at += step) {
    if (pread(file, chunk.data(), chunk.size(), at) != step) std::abort();
  }
  if (ftruncate(file, 0) != 0) std::abort();
}

// Does the work of the given number and returns its rate per CPU second.
class Worker {
 public:
  Worker(ScratchCgroup& scratch, const std::string& directory) : child_(working(directory)) {
    scratch.add(scratch.child("work"), child_.pid());
  }
  [[nodiscard]] double rate(int work) const { return child_.report(work); }

 private:
  static SignalledChild<int, double>::Act working(const std::string& directory) {
    return [directory](int work) -> std::optional<double> {
      static const int file = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
      if (file < 0) return std::nullopt;
      return best_rate(kSlices, kSliceSeconds, [work] {
        if (work == 0) do_faults();
        if (work == 1) do_malloc();
        if (work == 2) do_cache(file);
      });
    };
  }

  SignalledChild<int, double> child_;
};

// Runs the agent as a service manager does.
class Agent {
 public:
  Agent(const std::string& executable, const TempTree& directory,
        const std::vector<std::string>& arguments)
      : log_(directory / "agent.log"),
        notify_(make_notify(directory / "notify")),
        child_([&] { return exec(executable, directory, arguments); }) {
    std::array<char, 256> text{};
    while (!std::string_view(text.data()).starts_with("READY=1")) {
      const ssize_t got = recv(notify_.get(), text.data(), text.size() - 1, 0);
      if (got <= 0) throw std::runtime_error("no agent: " + read_text(log_).substr(0, 2000));
      text[static_cast<std::size_t>(got)] = 0;
    }
  }
  Agent(const Agent&) = delete;
  ~Agent() {
    kill(child_.pid(), SIGTERM);
    if (child_.wait_exit()) child_.reap();
  }

  [[nodiscard]] std::string tier() const {
    const std::string log = read_text(log_);
    const auto at = log.find("tier=");
    return at == std::string::npos ? "unknown" : log.substr(at + 5, log.find(' ', at) - at - 5);
  }
  [[nodiscard]] double cpu_ms() const { return cpu_ms_of(child_.pid()); }
  // In all its BPF programs so far; needs bpf_enable_stats().
  [[nodiscard]] double bpf_ms() const {
    double ns = 0;
    const auto all = fmt::format("/proc/{}/fd", child_.pid());
    for (const auto& each : std::filesystem::directory_iterator(all)) {
      // Other descriptors may be closed meanwhile; programs live as long as the agent.
      std::error_code closed;
      const auto what = std::filesystem::read_symlink(each.path(), closed);
      if (closed || what != "anon_inode:bpf-prog") continue;
      const std::string text = read_text(
          fmt::format("/proc/{}/fdinfo/{}", child_.pid(), each.path().filename().string()));
      const auto at = text.find("run_time_ns:");
      if (at != std::string::npos) ns += std::strtod(text.c_str() + at + 12, nullptr);
    }
    return ns / 1e6;
  }
  [[nodiscard]] double resident_mib() const {
    std::istringstream lines(read_text(fmt::format("/proc/{}/smaps_rollup", child_.pid())));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("Rss:")) return std::strtod(line.c_str() + 4, nullptr) / 1024;
    }
    return 0;
  }

 private:
  static UniqueFd make_notify(const std::string& path) {
    UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    unlink(path.c_str());
    const timeval patience{60, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error("bind " + path);
    }
    return fd;
  }

  [[nodiscard]] int exec(const std::string& executable, const TempTree& directory,
                         const std::vector<std::string>& more) const {
    setenv("NOTIFY_SOCKET", (directory / "notify").c_str(), 1);
    const int log = open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    std::vector<std::string> words{
        executable, "agent", "--config", directory / "config.yaml", "--run-dir", directory / "run"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(std::move(words), log, log);
  }

  std::string log_;
  UniqueFd notify_;
  Child child_;
};

struct Kind {
  std::string name;                    // as printed in the table
  bool runs = true;                    // false: no agent
  std::vector<std::string> arguments;  // of the agent
};

struct Figures {
  std::map<std::string, std::vector<double>> rates;  // by work
  std::vector<double> cpu_share;                     // of one CPU, while work was done
  std::vector<double> resident_mib;
  std::vector<double> bpf_share;  // of the work's CPU time
};

class Bench {
 public:
  Bench(std::string executable, int cgroups)
      : executable_(std::move(executable)), worker_(scratch_, directory_ / "") {
    scratch_.limit(scratch_.path(), gib(1));
    for (int i = 0; i < cgroups; ++i) scratch_.child(fmt::format("idle{}", i));
    directory_.write("config.yaml",
                     fmt::format("dryRun: true\nevictionHard: {{memory.available: 100Mi}}\n"
                                 "pods: {{enabled: false}}\n"
                                 "watch: [{{cgroup: {0}, available: 64Mi}}]\n"
                                 "workloads: [{{cgroup: '{0}/*'}}]\n",
                                 scratch_.path()));
  }

  void round(bool backwards) {
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      Kind& kind = kinds_[backwards ? kinds_.size() - 1 - k : k];
      std::optional<Agent> agent;
      if (kind.runs) agent.emplace(executable_, directory_, kind.arguments);
      if (agent && kind.name.empty()) kind.name = agent->tier();
      Figures& figures = figures_[&kind];
      const double cpu_before = agent ? agent->cpu_ms() : 0;
      const double bpf_before = agent ? agent->bpf_ms() : 0;
      const MonotonicTime began = SystemClock().now();
      for (std::size_t i = 0; i < kWorks.size(); ++i) {
        figures.rates[kWorks[i]].push_back(worker_.rate(static_cast<int>(i)));
      }
      if (!agent) continue;
      const double took_ms = to_us(SystemClock().now() - began) / 1000;
      figures.cpu_share.push_back((agent->cpu_ms() - cpu_before) / took_ms);
      figures.resident_mib.push_back(agent->resident_mib());
      const double work_ms = kSliceSeconds * 1000 * kSlices * static_cast<double>(kWorks.size());
      figures.bpf_share.push_back((agent->bpf_ms() - bpf_before) / work_ms);
    }
  }

  void report(int cgroups) const {
    const Figures& off = figures_.at(&kinds_.front());
    for (const Kind& kind : kinds_) {
      if (&kind == &kinds_.front()) continue;
      const Figures& on = figures_.at(&kind);
      const std::string name = fmt::format("{}_{}", kind.name, cgroups);
      for (const std::string& work : kWorks) {
        std::vector<double> ratios;
        for (std::size_t i = 0; i < on.rates.at(work).size(); ++i) {
          ratios.push_back(on.rates.at(work)[i] / off.rates.at(work)[i]);
        }
        const Spread spread = spread_of(ratios);
        fmt::print("  {:>7} {:<11} {:<7} {:>8.2f}% {:>8.2f}% {:>8.2f}%  {}\n", cgroups, kind.name,
                   work, spread.median * 100, spread.lower * 100, spread.upper * 100,
                   spread.median >= kTarget ? "" : "below 99.5 %");
        fmt::print("@metric overhead_{}_{} {:.4f}\n", name, work, spread.median);
      }
      if (!kind.runs) continue;
      const double cpu = spread_of(on.cpu_share).median * 100;
      const double resident = spread_of(on.resident_mib).median;
      fmt::print("  {:>7} {:<11} agent: {:.3f} % of a CPU, {:.1f} MiB\n", cgroups, kind.name, cpu,
                 resident);
      fmt::print("@metric agent_cpu_{} {:.3f} %\n@metric agent_rss_{} {:.1f} MiB\n", name, cpu,
                 name, resident);
      const double bpf = spread_of(on.bpf_share).median * 100;
      fmt::print("  {:>7} {:<11} in its BPF programs: {:.4f} % of the work's time\n", cgroups,
                 kind.name, bpf);
      fmt::print("@metric bpf_share_{} {:.4f} %\n", name, bpf);
    }
  }

 private:
  std::string executable_;
  TempTree directory_;
  ScratchCgroup scratch_;
  Worker worker_;
  // Their addresses are keys.
  std::vector<Kind> kinds_{{"off", false, {}},
                           {"control", false, {}},
                           {"files", true, {"--disable-feature", "bpf"}},
                           {"", true, {}}};
  std::map<const Kind*, Figures> figures_;
};

int usage() {
  fmt::print(stderr, "usage: overhead_bench FORESTALL [--rounds N] [--cgroups N[,N...]]\n");
  return 2;
}

int main_of(int argc, char** argv) {
  if (argc < 2 || argc % 2 != 0) return usage();
  int rounds = 9;
  std::string_view sizes = "1000,10000";
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    if (option == "--rounds") {
      rounds = std::atoi(argv[i + 1]);
    } else if (option == "--cgroups") {
      sizes = argv[i + 1];
    } else {
      return usage();
    }
  }
  if (rounds < 1) return usage();
  fmt::print("{} rounds; work done by CPU second, of that without an agent: median, quartiles\n",
             rounds);
  const UniqueFd stats(bpf_enable_stats(BPF_STATS_RUN_TIME));
  if (!stats) fmt::print("this kernel does not report the time in BPF programs\n");
  while (!sizes.empty()) {
    const int cgroups = std::atoi(std::string(next_field(sizes, ',')).c_str());
    Bench bench(argv[1], cgroups);
    for (int i = 0; i < rounds; ++i) bench.round(i % 2 == 1);
    bench.report(cgroups);
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
    fmt::print(stderr, "overhead_bench: {}\n", failure.what());
    return 1;
  }
}
