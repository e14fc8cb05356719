// SPDX-License-Identifier: Apache-2.0
// Demonstrates the agent on real memory in a few seconds. A scratch cgroup with a limit has three
// workloads of different priority. One leaks as fast as it can, and the agent must evict it before
// the kernel's OOM killer acts.
// The demo checks its claims against wait statuses and the kernel's counters, not against the
// agent's reports.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/printable.h"
#include "cli/agent_process.h"
#include "cli/commands.h"
#include "cli/demo_workload.h"
#include "cli/exit_code.h"
#include "forestall/v1/record.pb.h"
#include "kernel/cgroup_create.h"
#include "kernel/cgroup_tree.h"
#include "kernel/memory_files.h"
#include "messages/json.h"
#include "model/workload.h"
#include "tables/table.h"

namespace forestall::cli {
namespace {

constexpr Bytes kLimit = mib(512);
constexpr Bytes kThreshold = mib(96);
constexpr Duration kPodPatience = std::chrono::seconds(30);

struct Cast {
  const char* name;
  int priority;
  Bytes request;
  Bytes held;
};

// The leaker is the smallest and not the last in alphabetical order: only the rules select it.
constexpr std::array<Cast, 3> kCast{{{"database", 1000, mib(160), mib(128)},
                                     {"leaker", 10, mib(64), mib(16)},
                                     {"web", 100, mib(48), mib(96)}}};
constexpr std::size_t kLeaker = 1;

// Ctrl-C, SIGTERM and SIGHUP end the demo early, with its cgroups removed.
class Interrupt {
 public:
  static Result<Interrupt> take() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int each : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, each);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC));
    if (!fd) return errno_error("signalfd", "demo");
    return Interrupt(std::move(fd));
  }
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool received() const {
    pollfd ready{fd_.get(), POLLIN, 0};
    return ::poll(&ready, 1, 0) == 1;
  }

 private:
  explicit Interrupt(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// Without this check the library that creates cgroups would fail, with its own error number.
Result<void> check_permission(const kernel::CgroupTree& tree) {
  if (::faccessat(tree.memory_fd(), ".", W_OK | X_OK, AT_EACCESS) == 0) return {};
  if (errno == EROFS) {
    return error(
        fmt::format("{} is mounted read-only, and the demo creates cgroups there; run it "
                    "on the host, or in a container with a writable cgroup filesystem",
                    tree.memory_mount()));
  }
  return error(
      fmt::format("the demo creates cgroups in {} and starts an agent, which user {} may "
                  "not do; run it as root: sudo forestall demo",
                  tree.memory_mount(), ::geteuid()));
}

// Removes the demo's cgroups and files on every exit path.
class DemoCgroups {
 public:
  static Result<std::unique_ptr<DemoCgroups>> build(const kernel::CgroupTree& tree);
  DemoCgroups(const DemoCgroups&) = delete;
  DemoCgroups& operator=(const DemoCgroups&) = delete;
  ~DemoCgroups();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& directory() const { return directory_; }
  [[nodiscard]] std::vector<DemoWorkload>& workloads() { return workloads_; }
  // OOM kills by the kernel in all cgroups of the demo.
  [[nodiscard]] Result<std::uint64_t> kernel_oom_kills() const;

 private:
  explicit DemoCgroups(const kernel::CgroupTree& tree) : tree_(tree) {}
  Result<void> make_groups();
  const kernel::CgroupTree& tree_;
  std::string path_;
  std::string directory_;
  std::vector<std::string> groups_;  // parents first
  std::vector<DemoWorkload> workloads_;
};

Result<std::unique_ptr<DemoCgroups>> DemoCgroups::build(const kernel::CgroupTree& tree) {
  std::unique_ptr<DemoCgroups> stage(new DemoCgroups(tree));
  std::string name = std::filesystem::temp_directory_path() / "forestall-demo-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) return errno_error("mkdtemp", name);
  stage->directory_ = name;
  stage->path_ = fmt::format("/forestall-demo-{}", getpid());
  TRY(stage->make_groups());
  return stage;
}

Result<void> DemoCgroups::make_groups() {
  TRY(kernel::create_group(tree_, path_, kLimit));
  groups_.push_back(path_);
  for (const Cast& each : kCast) {
    const std::string path = path_ + "/" + each.name;
    TRY(kernel::create_group(tree_, path, std::nullopt));
    groups_.push_back(path);
    const kernel::CgroupDir group = TRY(tree_.open(path));
    workloads_.push_back(TRY(DemoWorkload::start(group, each.held)));
  }
  return {};
}

DemoCgroups::~DemoCgroups() {
  workloads_.clear();  // kills and reaps them, which empties the cgroups
  for (auto path = groups_.rbegin(); path != groups_.rend(); ++path) {
    if (const auto removed = kernel::delete_group(tree_, *path); !removed) {
      fmt::print(stderr, "forestall demo: cleanup: {}\n", printable_lines(removed.error().text()));
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

Result<std::uint64_t> DemoCgroups::kernel_oom_kills() const {
  const bool v1 = tree_.version() == kernel::CgroupVersion::v1;
  std::uint64_t sum = 0;
  for (const std::string& path : groups_) {
    const kernel::CgroupDir group = TRY(tree_.open(path));
    const std::string text = TRY(group.read(v1 ? "memory.oom_control" : "memory.events.local"));
    const auto events = TRY(kernel::parse_memory_events(text));
    if (!events.oom_kill) return error(path + ": the kernel does not count oom_kill");
    sum += *events.oom_kill;
  }
  return sum;
}

Result<std::string> write_config(const DemoCgroups& stage) {
  std::string text = fmt::format(
      "# The demo's configuration: its own scratch cgroup, and nothing else on this host.\n"
      "evictionHard: {{}}\n"
      "untilOom: {{available: 0%}}\n"
      "pods: {{enabled: false}}\n"
      "watch:\n"
      "  - cgroup: {}\n"
      "    available: {}Mi\n"
      "workloads:\n",
      stage.path(), kThreshold.count >> 20);
  for (const Cast& each : kCast) {
    text +=
        fmt::format("  - cgroup: {}/{}\n    name: {}\n    priority: {}\n    memoryRequest: {}Mi\n",
                    stage.path(), each.name, each.name, each.priority, each.request.count >> 20);
  }
  const std::string path = stage.directory() + "/config.yaml";
  std::ofstream file(path);
  file << text;
  if (!file.flush()) return error("cannot write " + path);
  return path;
}

// The record of the kill, complete with its outcome.
Result<v1::Record> wait_for_eviction(AgentProcess& agent) {
  const MonotonicTime deadline = SystemClock().now() + kPodPatience;
  while (const auto line = agent.next_record(deadline)) {
    v1::Record record;
    TRY(messages::from_json(*line, record));
    if (record.decision().action() == v1::Decision::KILL && record.has_outcome()) return record;
  }
  return error("the agent evicted no workload within 30 s");
}

struct Verdict {
  std::string claim;
  bool held;
};

struct Played {
  v1::Record record;
  std::vector<Verdict> verdicts;
};

std::vector<Verdict> check_outcome(DemoCgroups& stage, const v1::Record& record,
                                   std::uint64_t oom_kills_before) {
  auto& workloads = stage.workloads();
  const auto oom_kills = stage.kernel_oom_kills();
  const auto leaker_end = workloads[kLeaker].ended_by(std::chrono::seconds(5));
  std::vector<Verdict> verdicts;
  const auto check = [&](std::string claim, bool held) {
    verdicts.emplace_back(std::move(claim), held);
  };
  check("the agent chose the leaker", record.outcome().victim().name() == kCast[kLeaker].name);
  check("SIGKILL ended the leaker", leaker_end == SIGKILL);
  for (std::size_t i = 0; i < kCast.size(); ++i) {
    if (i == kLeaker) continue;
    check(fmt::format("{} still runs", kCast[i].name), !workloads[i].ended_by());
  }
  check("its memory was released", record.outcome().state() == v1::KillProgress::RELEASED);
  check(fmt::format("the kernel's oom_kill count did not move (before {}, after {})",
                    oom_kills_before, oom_kills ? fmt::format("{}", *oom_kills) : "unreadable"),
        oom_kills.ok() && *oom_kills == oom_kills_before);
  return verdicts;
}

Result<Played> play(const Options& options, const Interrupt& interrupt) {
  const kernel::CgroupTree tree = TRY(kernel::CgroupTree::discover(options.cgroup_mount));
  TRY(check_permission(tree));
  const auto stage = TRY(DemoCgroups::build(tree));
  const std::string config = TRY(write_config(*stage));
  std::vector<std::string> arguments{"--config", config, "--cgroup-mount", options.cgroup_mount};
  if (options.verbose) arguments.push_back("--verbose");
  for (const std::string& feature : options.disabled) {
    arguments.push_back("--disable-feature");
    arguments.push_back(feature);
  }
  AgentProcess agent =
      TRY(AgentProcess::start("/proc/self/exe", arguments, stage->directory(), interrupt.fd()));
  const std::uint64_t before = TRY(stage->kernel_oom_kills());
  TRY(stage->workloads()[kLeaker].leak());
  Played played;
  played.record = TRY(wait_for_eviction(agent));
  played.verdicts = check_outcome(*stage, played.record, before);
  if (options.verbose) fmt::print(stderr, "{}", printable_lines(agent.log()));
  return played;
}

void print_ranking(const v1::Decision& decision) {
  tables::Table table(
      {"order", "workload", "working set", "request", "exceeds request", "priority", ""});
  for (int i = 0; i < decision.considered_size(); ++i) {
    const v1::Candidate& each = decision.considered(i);
    const auto& sample = each.sample();
    const Bytes set =
        forestall::working_set({sample.usage_bytes()}, {sample.inactive_file_bytes()});
    table.add(
        {fmt::format("{}", i + 1), sample.workload().name(), tables::human(set),
         tables::human({sample.workload().memory_request_bytes()}),
         each.key().exceeds_request() ? "yes" : "no", fmt::format("{}", each.key().priority()),
         decision.has_victim() && static_cast<int>(decision.victim()) == i ? "<- evicted" : ""});
  }
  table.print();
}

struct TimelineStep {
  std::int64_t at_ns;
  std::string what;
  std::string remark;
};

// The crossing is between the two.
void add_crossing(const v1::CrossingBounds& crossing, std::vector<TimelineStep>& steps) {
  if (crossing.seen() == v1::CrossingBounds::CHARGE) {
    steps.push_back(
        {crossing.last_above().at_ns(), "crossed", "reported by the kernel's charge hook"});
    return;
  }
  if (crossing.has_last_above()) {
    steps.push_back(
        {crossing.last_above().at_ns(), "not crossed", "last reading above the threshold"});
  }
  steps.push_back({crossing.first_below().at_ns(), "crossed", "first reading below it"});
}

void add_outcome(const v1::Outcome& outcome, std::vector<TimelineStep>& steps) {
  if (outcome.has_signalled_ns()) {
    steps.push_back(
        {outcome.signalled_ns(), "signalled", fmt::format("{} process(es)", outcome.processes())});
  }
  if (outcome.has_exited_ns()) steps.push_back({outcome.exited_ns(), "exited", ""});
  if (outcome.has_released_ns()) {
    steps.push_back(
        {outcome.released_ns(), "memory freed", tables::human({outcome.freed_bytes()})});
  }
}

void print_timeline(const v1::Record& record) {
  const auto& evidence = record.decision().evidence(static_cast<int>(record.decision().driving()));
  const auto& source =
      *v1::Wake::Source_descriptor()->FindValueByNumber(record.observation().wake().source());
  std::vector<TimelineStep> steps;
  add_crossing(record.crossing(), steps);
  steps.push_back(
      {record.stages().woken_ns(), "woken", fmt::format("by {}", messages::enum_word(source))});
  steps.push_back({record.stages().observed_ns(), "observed",
                   fmt::format("{} available, threshold {}", tables::human({evidence.available()}),
                               tables::human({evidence.limit()}))});
  steps.push_back(
      {record.stages().decided_ns(), "decided", "evict " + record.outcome().victim().name()});
  add_outcome(record.outcome(), steps);
  // process_mrelease() may free all of its memory before the process exits.
  std::ranges::stable_sort(steps, {}, &TimelineStep::at_ns);
  for (const TimelineStep& step : steps) {
    fmt::print("  {:>9.1f} us  {:<12} {}\n",
               static_cast<double>(step.at_ns - steps.front().at_ns) / 1e3, step.what, step.remark);
  }
}

void print_text(const Played& played) {
  fmt::print(
      "A scratch cgroup limited to {}; three workloads in it; `leaker` takes memory as fast as it "
      "can.\nThe agent acts when less than {} is available, before the kernel has to.\n\n",
      tables::human(kLimit), tables::human(kThreshold));
  fmt::print("Timeline\n");
  print_timeline(played.record);
  fmt::print("\nRanking (kubelet's rules: exceeds its request, then priority, then how far)\n");
  print_ranking(played.record.decision());
  fmt::print("\nChecked\n");
  for (const Verdict& verdict : played.verdicts) {
    fmt::print("  [{}] {}\n", verdict.held ? "ok" : "FAILED", verdict.claim);
  }
}

}  // namespace

int run_demo(const Options& options) {
  const auto interrupt = Interrupt::take();
  if (!interrupt) {
    fmt::print(stderr, "forestall demo: {}\n", printable_lines(interrupt.error().text()));
    return kExitFailed;
  }
  const auto played = play(options, *interrupt);
  // The signals of a terminal also end the agent and the workloads, which then are errors.
  if (interrupt->received()) {
    fmt::print(stderr, "forestall demo: interrupted; its cgroups and processes are removed\n");
    return kExitFailed;
  }
  if (!played) {
    fmt::print(stderr, "forestall demo: {}\n", printable_lines(played.error().text()));
    return kExitFailed;
  }
  if (options.output == OutputFormat::json) {
    fmt::print("{}", messages::to_json(played->record, messages::JsonStyle::pretty));
  } else {
    print_text(*played);
  }
  bool all = true;
  for (const Verdict& verdict : played->verdicts) {
    all = all && verdict.held;
    if (!verdict.held) fmt::print(stderr, "forestall demo: failed: {}\n", verdict.claim);
  }
  return all ? kExitOk : kExitFailed;
}

}  // namespace forestall::cli
