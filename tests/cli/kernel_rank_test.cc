// SPDX-License-Identifier: Apache-2.0
// `forestall rank --kernel`: text and report of made-up scenes, and the command on this host.
#include "cli/kernel_rank_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/oom_example.h"
#include "cli/pod_command_run.h"
#include "cli/process_input.h"
#include "messages/convert.h"
#include "policy/oom_selection.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr tables::ProcessShow kUnbounded{Bytes{4096}};

cli::KernelRankView view_of(const OomScene& scene) {
  cli::KernelRankView view;
  view.scene = scene;
  view.prediction = policy::predict(scene);
  view.order = policy::oom_order(scene);
  view.reading = read_by_bpf();
  return view;
}

std::string text_of(const OomScene& scene) {
  return kernel_rank_text(view_of(scene), kUnbounded);
}

TEST(KernelRankText, VictimAndRunnerUp) {
  EXPECT_EQ("\n" + text_of(example_scene()), R"(
If the node ran out of memory now, the kernel would kill compiler (pid 4712).
It has 8000 pages (31.2 MiB) more than the runner-up, worker (pid 4711).
An oom_score_adj of 1000 is worth 1000000 pages (3.8 GiB): RAM and swap of the node.
Processes were read by BPF; the kernel scores by its approximate counters (proven).

                 compiler (pid 4712)          worker (pid 4711)
  file           3000 pages (11.7 MiB)        100 pages (400.0 KiB)
  anon           90000 pages (351.6 MiB)      120000 pages (468.8 MiB)
  shmem          0 pages (0 B)                0 pages (0 B)
  swap           5000 pages (19.5 MiB)        0 pages (0 B)
  page tables    400 pages (1.6 MiB)          300 pages (1.2 MiB)
  oom_score_adj  30: 30000 pages (117.2 MiB)  0: 0 pages (0 B)
  points         128400 pages (501.6 MiB)     120400 pages (470.3 MiB)

  order  pid   name      points   file  anon  shmem  swap  tables  adj   cgroup
  1      4712  compiler  128400   12M   352M  0      20M   1.6M    30    /batch/nightly-build
  2      4711  worker    120400   400K  469M  0      0     1.2M    0     /batch
  3      700   server    -174290  20M   1.1G  78M    40K   2.7M    -500  /
)");
}

TEST(KernelRankText, ACgroupAtItsLimit) {
  OomScene scene = example_scene();
  scene.domain = {Constraint::memcg, CgroupId{2}, "/batch", 300'000, kAllNodes, false};
  scene.cgroups.erase(scene.cgroups.begin());
  scene.cgroups[0].parent.reset();
  scene.cgroups[1].parent = 0;
  const std::string text = text_of(scene);
  EXPECT_THAT(text,
              StartsWith("If /batch ran out of memory at its limit now, the kernel would kill "
                         "worker (pid 4711).\n"));
  EXPECT_THAT(text, HasSubstr("is worth 300000 pages (1.1 GiB): what /batch may use of RAM and "
                              "swap.\n"));
  EXPECT_THAT(text, Not(HasSubstr("server")));
  scene.domain.kill_disabled = true;
  EXPECT_THAT(text_of(scene), HasSubstr("because memory.oom_control of /batch disables kills"));
  scene.domain.kill_disabled = false;
  scene.processes.clear();
  EXPECT_THAT(text_of(scene),
              HasSubstr("would find no eligible process, and the allocation would fail.\n"));
}

TEST(KernelRankText, NodesInNeed) {
  OomScene scene = example_scene();
  scene.domain.constraint = Constraint::cpuset;
  scene.domain.nodes = 0b1011;
  EXPECT_THAT(text_of(scene), StartsWith("If a cpuset ran out of memory on its nodes 0-1,3 now, "));
  EXPECT_THAT(text_of(scene), HasSubstr(": RAM of nodes 0-1,3, and all swap.\n"));
  scene.domain.constraint = Constraint::memory_policy;
  scene.domain.nodes = 0b100;
  EXPECT_THAT(text_of(scene), StartsWith("If a memory policy ran out of memory on its node 2 now"));
}

TEST(KernelRankText, Ties) {
  OomScene scene = example_scene();
  scene.processes[3] = sample_of({4712, "compiler", {100, 120'000, 0, 0, 300}, 0, 2});
  cli::KernelRankView view = view_of(scene);
  ASSERT_TRUE(view.prediction.tied);
  view.tie_order_known = true;
  const std::string known = kernel_rank_text(view, kUnbounded);
  EXPECT_THAT(known, HasSubstr("exactly as many points as the runner-up, worker (pid 4711): of "
                               "equal ones the kernel takes the last in its own order.\n"));
  view.tie_order_known = false;
  EXPECT_THAT(kernel_rank_text(view, kUnbounded),
              HasSubstr("in its own order, which is unknown here; either may be the victim.\n"));
  EXPECT_EQ(to_report(view, kUnbounded).margin_pages(), 0);
  EXPECT_FALSE(to_report(view, kUnbounded).tie_order_known());
  EXPECT_TRUE(to_report(view, kUnbounded).has_tie_order_known());
}

TEST(KernelRankText, ListsProcessesKilledAlong) {
  OomScene scene = example_scene();
  scene.processes[2].memory_id = scene.processes[3].memory_id;
  EXPECT_THAT(text_of(scene),
              HasSubstr("\nWith it die the processes that share its memory: worker (pid 4711).\n"));
  scene.cgroups[1].oom_group = true;
  EXPECT_THAT(text_of(scene),
              HasSubstr("\nThe kernel kills all of /batch, because its memory.oom.group is "
                        "set.\nWith it die: worker (pid 4711).\n"));
}

TEST(KernelRankText, ShowsHowManyOthersMayShareItsMemory) {
  OomScene scene = example_scene();
  EXPECT_THAT(text_of(scene), Not(HasSubstr("may die with it")));
  scene.processes[2].memory_id = 0;
  EXPECT_THAT(text_of(scene),
              HasSubstr("\n1 process may die with it: whether it shares its memory is unknown. "
                        "Comparing processes of other users needs CAP_SYS_PTRACE.\n"));
  scene.processes[2].memory_id = scene.processes[1].memory_id;
  scene.processes[3].memory_id = 0;
  EXPECT_THAT(text_of(scene),
              HasSubstr("\n3 processes may die with it: whether they share its memory is "));
}

TEST(KernelRankText, NoProcessIsChosen) {
  OomScene scene = example_scene();
  scene.settings.panic_on_oom = 1;
  EXPECT_THAT(text_of(scene), HasSubstr("the kernel would panic, because vm.panic_on_oom is 1.\n"));
  EXPECT_THAT(text_of(scene), HasSubstr("  1      4712  compiler"));
  scene.settings.panic_on_oom = 0;
  scene.processes[1].oom_victim = true;
  EXPECT_THAT(text_of(scene), HasSubstr("waits for an earlier victim to exit, server (pid "
                                        "700).\n"));
  scene.processes.resize(1);
  EXPECT_THAT(text_of(scene),
              HasSubstr("the kernel would find no eligible process and would panic.\n"));
}

TEST(KernelRankText, TheAllocatingProcessIsKilled) {
  OomScene scene = example_scene();
  scene.settings.kill_allocating_task = true;
  EXPECT_THAT(text_of(scene), HasSubstr("give it with --allocating PID.\n"));
  scene.allocating = 700;
  const std::string text = text_of(scene);
  EXPECT_THAT(text, HasSubstr("kill server (pid 700), because it allocates, and "
                              "vm.oom_kill_allocating_task is set.\n"));
  EXPECT_THAT(
      text,
      HasSubstr("\nIf another process allocated, the victim would be compiler (pid 4712).\n"));
  EXPECT_THAT(text, Not(HasSubstr("--allocating")));
}

// The points of a process with oom_origin are not printed, because they are no usable number.
TEST(KernelRankText, OomOriginIsFirst) {
  OomScene scene = example_scene();
  scene.processes[1].oom_origin = true;
  const std::string text = text_of(scene);
  EXPECT_THAT(text, HasSubstr("would kill server (pid 700).\nThe runner-up is compiler (pid "
                              "4712).\n"));
  EXPECT_THAT(text, HasSubstr("  1      700   server    first   "));
  EXPECT_FALSE(to_report(view_of(scene), kUnbounded).has_margin_pages());
}

TEST(KernelRankReport, HasAllFields) {
  const cli::KernelRankView view = view_of(example_scene());
  const v1::KernelRankReport report = to_report(view, kUnbounded);
  EXPECT_EQ(report.prediction().verdict(), v1::OomPrediction::KILLS);
  EXPECT_EQ(
      report.scene().processes(static_cast<int>(report.prediction().victim().process())).id().pid(),
      4712);
  EXPECT_EQ(report.victim().process().id().pid(), 4712);
  EXPECT_EQ(report.victim().points(), 128'400);
  EXPECT_FALSE(report.victim().has_oom_score());
  EXPECT_EQ(report.runner_up().process().name(), "worker");
  EXPECT_EQ(report.margin_pages(), 8000);
  EXPECT_FALSE(report.has_tie_order_known());
  ASSERT_EQ(report.order_size(), 3);
  EXPECT_EQ(report.order(2).name(), "server");
  EXPECT_EQ(report.order(2).cgroup(), "/");
  EXPECT_EQ(*messages::from_proto(report.scene()), view.scene);
  EXPECT_EQ(*messages::from_proto(report.prediction()), view.prediction);
}

TEST(NodeList, IsAsTheKernelWritesIt) {
  EXPECT_EQ(cli::node_list(0), "");
  EXPECT_EQ(cli::node_list(1), "0");
  EXPECT_EQ(cli::node_list(0b1101), "0,2-3");
  EXPECT_EQ(cli::node_list(kAllNodes), "0-63");
}

// --- ties ------------------------------------------------------------------------------------

// Returns the given order, or that it is unknown.
class FakeProcesses final : public sources::ProcessSource {
 public:
  explicit FakeProcesses(bool knows) : knows_(knows) {}
  Result<void> scan(std::optional<CgroupId> /*subtree*/,
                    std::vector<ProcessSample>& /*samples*/) override {
    return {};
  }
  Result<bool> order(std::vector<ProcessSample>& samples,
                     const std::vector<std::size_t>& which) override {
    if (!knows_) return false;
    // The reverse of the fork order.
    std::uint64_t place = which.size();
    for (const std::size_t index : which) samples[index].order = place--;
    return true;
  }
  Result<bool> order_on_node(std::vector<ProcessSample>& samples,
                             const std::vector<std::size_t>& which) override {
    return order(samples, which);
  }
  [[nodiscard]] std::string_view name() const override { return "fake"; }

 private:
  bool knows_ = false;
};

TEST(Predict, ReadsTheKernelsOrderOfTies) {
  OomScene scene = example_scene();
  scene.processes[3] = sample_of({4712, "compiler", {100, 120'000, 0, 0, 300}, 0, 2});
  FakeProcesses ignorant(false);
  const auto guessed = cli::predict(ignorant, scene);
  EXPECT_EQ(guessed->order_known, false);
  EXPECT_EQ(guessed->prediction.victim->process, 3U);
  FakeProcesses knowing(true);
  const auto known = cli::predict(knowing, scene);
  EXPECT_EQ(known->order_known, true);
  EXPECT_EQ(known->prediction.victim->process, 2U);
  OomScene clear = example_scene();
  EXPECT_EQ(cli::predict(knowing, clear)->order_known, std::nullopt);
}

// --- the command -----------------------------------------------------------------------------

std::vector<std::string> with_empty_config(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--config", kubernetes_file("empty.yaml")});
  return arguments;
}

TEST(RankKernelCommand, TheNode) {
  const Ran ran = run_forestall(with_empty_config({"rank", "--kernel"}));
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, StartsWith("If the node ran out of memory now, "));
  const auto report = json_of<v1::KernelRankReport>(with_empty_config({"rank", "--kernel"}));
  EXPECT_GT(report.order_size(), 0);
  EXPECT_EQ(report.scene().domain().constraint(), v1::OomDomain::NONE);
  EXPECT_EQ(report.scene().cgroups(0).path(), "/");
}

// The larger of two, by either source; no process outside is read.
TEST(RankKernelCommand, ACgroupAtItsLimit) {
  ScratchCgroup scratch;
  scratch.limit(scratch.path(), mib(64));
  const Hog small(scratch, scratch.child("small"), mib(4));
  const Hog large(scratch, scratch.child("large"), mib(12));
  for (const bool bpf : {true, false}) {
    auto arguments = with_empty_config({"rank", "--kernel", "--cgroup", scratch.path()});
    if (!bpf) arguments.insert(arguments.end(), {"--disable-feature", "bpf-tasks"});
    const auto report = json_of<v1::KernelRankReport>(arguments);
    EXPECT_EQ(report.victim().process().id().pid(), large.pid()) << bpf;
    EXPECT_EQ(report.runner_up().process().id().pid(), small.pid()) << bpf;
    EXPECT_EQ(report.victim().cgroup(), scratch.path() + "/large");
    EXPECT_EQ(report.order_size(), 2);
    EXPECT_GE(report.scene().domain().total_pages(), mib(64).count / sysconf(_SC_PAGESIZE));
  }
}

TEST(RankKernelCommand, RefusesADomainThatCannotRunOut) {
  const Ran none =
      run_forestall(with_empty_config({"rank", "--kernel", "--cgroup", "/forestall-is-not-here"}));
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.errors, HasSubstr("/forestall-is-not-here"));
  const Ran stranger =
      run_forestall(with_empty_config({"rank", "--kernel", "--allocating", "4194305"}));
  EXPECT_EQ(stranger.exit_code, 1);
  EXPECT_THAT(stranger.errors, HasSubstr("--allocating 4194305: no such process"));
}

// `ranking: kernel`: the agent's order follows the kernel's points.
TEST(RankCommand, ByTheKernelsPoints) {
  ScratchCgroup scratch;
  const Hog small(scratch, scratch.child("small"), mib(4));
  const Hog large(scratch, scratch.child("large"), mib(12));
  scratch.child("empty");
  const TempTree tree{{"config.yaml",
                       "pods: {enabled: false}\nranking: kernel\nworkloads:\n"
                       "  - {cgroup: " +
                           scratch.path() +
                           "/small, priority: -10, memoryRequest: 0}\n"
                           "  - {cgroup: " +
                           scratch.path() + "/*, memoryRequest: 1Gi}\n"}};
  const std::vector<std::string> arguments{"rank", "--config", tree / "config.yaml"};
  const auto report = json_of<v1::RankReport>(arguments);
  EXPECT_EQ(report.comparators(1), "kernel-badness");
  ASSERT_EQ(report.order_size(), 3);
  EXPECT_EQ(report.order(0).sample().badness().process().pid(), large.pid());
  EXPECT_EQ(report.order(1).sample().badness().process().pid(), small.pid());
  EXPECT_GT(report.order(0).key().badness(), report.order(1).key().badness());
  EXPECT_FALSE(report.order(2).key().has_badness());
  const Ran text = run_forestall(arguments);
  EXPECT_THAT(text.output, HasSubstr("points"));
  EXPECT_THAT(text.output, HasSubstr(std::to_string(large.pid())));
  EXPECT_THAT(text.output, HasSubstr("before the next by kernel-badness"));
}

// `ranking: kubelet+growth`: a workload that grew during the command goes before a larger one.
TEST(RankCommand, RanksByGrowthDuringTheCommand) {
  ScratchCgroup scratch;
  const Hog calm(scratch, scratch.child("calm"), mib(24));
  Hog grower(scratch, scratch.child("grower"), mib(1));
  const std::string rules =
      "pods: {enabled: false}\nworkloads:\n  - {cgroup: " + scratch.path() + "/*}\nranking: ";
  const TempTree tree{{"growth.yaml", rules + "kubelet+growth\n"},
                      {"kubelet.yaml", rules + "kubelet\n"}};
  const Ran unknown = run_forestall({"rank", "--config", tree / "growth.yaml"});
  EXPECT_THAT(unknown.errors, HasSubstr("growth is unknown, so kubelet's order applies"));
  EXPECT_THAT(unknown.output, HasSubstr("unknown"));

  const std::vector<std::string> watch{"rank", "--growth-over", "3s", "--config",
                                       tree / "growth.yaml"};
  grower.leak(Bytes{0}, mib(4));  // 12 MiB in those 3 s
  const auto report = json_of<v1::RankReport>(watch);
  EXPECT_EQ(report.comparators(4), "growth");
  ASSERT_EQ(report.order_size(), 2);
  EXPECT_EQ(report.order(0).sample().workload().name(), "grower");
  EXPECT_GT(report.order(0).key().growth(), mib(1).count);
  EXPECT_EQ(report.order(0).sample().growth_bytes(), report.order(0).key().growth());
  EXPECT_EQ(report.order(1).key().growth(), 0);

  const Ran shown =
      run_forestall({"rank", "--growth-over", "1ms", "--config", tree / "kubelet.yaml"});
  EXPECT_THAT(shown.output, HasSubstr("growth"));
  EXPECT_THAT(shown.output, HasSubstr("before the next by over-request"));
  for (const char* wrong : {"0s", "soon", "11m"}) {
    EXPECT_EQ(run_forestall({"rank", "--growth-over", wrong}).exit_code, 2) << wrong;
  }
}

TEST(RankKernelCommand, RefusesContradictions) {
  const std::vector<std::vector<std::string>> contradictions{
      {"--kernel", "--signal", "memory.available"},
      {"--kernel", "--pods", "-", "--stats", "-"},
      {"--nodes", "0"},
      {"--memory-policy", "0"},
      {"--allocating", "1"},
      {"--kernel", "--nodes", "0", "--memory-policy", "0"},
      {"--kernel", "--nodes", "0", "--cgroup", "/a"},
      {"--kernel", "--nodes", "x"},
      {"--kernel", "--nodes", "3-1"},
      {"--kernel", "--memory-policy", "64"},
      {"--kernel", "--cgroup", "a"},
      {"--kernel", "--allocating", "x"},
  };
  for (const auto& each : contradictions) {
    std::vector<std::string> arguments{"rank"};
    arguments.insert(arguments.end(), each.begin(), each.end());
    const Ran ran = run_forestall(arguments);
    EXPECT_EQ(ran.exit_code, 2) << testing::PrintToString(each);
    EXPECT_EQ(ran.output, "") << testing::PrintToString(each);
    EXPECT_NE(ran.errors, "") << testing::PrintToString(each);
  }
}

}  // namespace
}  // namespace forestall::test
