// SPDX-License-Identifier: Apache-2.0
// Accepted configurations and their effective settings.
#include "intake/config_file.h"

#include <gtest/gtest.h>

#include "intake/config_text.h"
#include "model/workload_example.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

using namespace std::chrono_literals;

intake::LoadedConfig loaded(std::string_view text, const std::string& manifest = "") {
  auto parsed = load_text(text, [&](const std::string&) { return Result<std::string>(manifest); });
  EXPECT_TRUE(parsed.ok()) << parsed.error().text();
  return parsed.ok() ? *parsed : intake::LoadedConfig{};
}

Threshold on(Signal signal, Limit limit, std::optional<Limit> min_reclaim = std::nullopt) {
  Threshold threshold;
  threshold.signal = signal;
  threshold.limit = limit;
  threshold.min_reclaim = min_reclaim;
  return threshold;
}

Result<intake::LoadedConfig> load_file(const std::string& path) {
  return intake::load_config(intake::ConfigInputs{path, "", {}});
}

constexpr Signal kNode = Signal::memory_available;
constexpr Signal kPods = Signal::allocatable_memory_available;

TEST(BuiltInConfig, IsKubeletsDefaultOnPods) {
  Config expected;
  expected.thresholds = {on(kNode, Limit::bytes(mib(100))),
                         on(Signal::nodefs_available, Limit::share(0.1F)),
                         on(Signal::nodefs_inodes_free, Limit::share(0.05F)),
                         on(Signal::imagefs_available, Limit::share(0.15F)),
                         on(Signal::imagefs_inodes_free, Limit::share(0.05F)),
                         on(kPods, Limit::bytes(mib(100)))};
  EXPECT_EQ(intake::built_in_config(), expected);
}

TEST(Config, EmptyMapIsTheBuiltIn) {
  const auto config = loaded("{}");
  EXPECT_EQ(config.config, intake::built_in_config());
  EXPECT_TRUE(config.warnings.empty());
  EXPECT_EQ(config.files, std::vector<std::string>{"config.yaml"});
}

TEST(Config, TheLinesShownForAHostWithoutPodsAreAccepted) {
  std::string text = "pods: {enabled: false}\n";
  for (const std::string_view line : kWorkloadExample) text += std::string(line) + "\n";
  const auto config = loaded(text);
  EXPECT_TRUE(config.warnings.empty());
  ASSERT_EQ(config.config.workloads.size(), 2U);
  EXPECT_EQ(config.config.workloads[0].cgroup, "/user.slice/user-*.slice");
  EXPECT_FALSE(config.config.workloads[0].is_protected);
}

constexpr const char* kEveryKey = R"(
dryRun: true
evictionHard: {memory.available: 5%}
evictionSoft: {memory.available: 10%}
evictionSoftGracePeriod: {memory.available: 1m30s}
evictionMinimumReclaim: {memory.available: 1.5Mi}
evictionMaxPodGracePeriod: -1
evictionPressureTransitionPeriod: 1m
mergeDefaultEvictionSettings: false
kernelMemcgNotification: true
enforceNodeAllocatable: [pods]
kubeReserved: {cpu: 1}
systemReserved: {memory: 1.5Gi}
localStorageCapacityIsolation: false
cgroupDriver: systemd
filesystems:
  nodefs: /k
  podLogs: /l
  imagefs: /i
  containerfs: /c
  runtime: unix:///run/containerd/containerd.sock
oomScoreAdj: enforce
compat:
  hardGrace: 2s
  softGraceIsLesser: false
  negativeGraceAsGiven: false
  hardAtOnce: false
  inodeRankSubtractsBytes: false
  containerfsFromSecondPass: false
  oneKillUntilCleanup: true
pods: {enabled: true, cgroupRoot: /kubelet}
watch:
  - cgroup: /batch.slice/*
    available: 64Mi
    minimumReclaim: 150%
    capacity: 2Gi
    tuneMemoryHigh: true
workloads:
  - cgroup: /batch.slice/*
    name: no
    priority: -10
    memoryRequest: 1Gi
    protected: true
manifest: manifest.yaml
disableFeatures: [bpf, poll]
releaseTimeout: 1.5s
recheckInterval: 1m30s
ranking: kernel
metricsAddress: "[::1]:9464"
guard: on
guardExpiry: 90s
untilOom: {available: 2%, minimumReclaim: 16Mi}
swap: {available: 10%, minimumReclaim: 5%}
ownLimit: {guaranteed: off, burstable: warn, bestEffort: slow, other: evict, margin: 10%}
recording: {directory: /var/lib/forestall/recording, maxSize: 1Gi}
killLimit: {window: 5s, node: 6, guaranteed: 2, burstable: 3, bestEffort: 4, other: 5}
watchedCgroupsMax: 100
podAnnotations: {protected: [payments, "team-?"], prefer: ["*"], avoid: [batch]}
)";

constexpr const char* kEveryManifestKey = R"(
pods:
  - {uid: A1-b2, name: default/web, priority: 2000001000, memoryRequest: 0, protected: true}
  - {uid: c3}
cgroups:
  - {cgroup: '/other.slice/?', priority: 1000000000}
)";

// Of 10 % margin; without an eviction, the condition ends when half as much more is available.
Threshold own_limit(WorkloadClass of, Response response) {
  Threshold threshold;
  threshold.signal = Signal::cgroup_memory_available;
  threshold.limit = Limit::share(0.1F);
  threshold.own_limits_of = of;
  threshold.response = response;
  if (response != Response::evict) threshold.min_reclaim = Limit::share(0.1F / 2);
  return threshold;
}

TEST(OwnLimit, MarginAndHysteresis) {
  const auto given = loaded("evictionHard: {}\nownLimit: {other: warn, margin: 10Mi}").config;
  ASSERT_EQ(given.thresholds.size(), 1U);
  EXPECT_EQ(given.thresholds[0].limit, Limit::bytes(mib(10)));
  EXPECT_EQ(given.thresholds[0].min_reclaim, Limit::bytes(mib(5)));
  const auto by_default = loaded("evictionHard: {}\nownLimit: {guaranteed: evict}").config;
  ASSERT_EQ(by_default.thresholds.size(), 1U);
  EXPECT_EQ(by_default.thresholds[0].limit, Limit::share(0.05F));
  EXPECT_EQ(by_default.thresholds[0].min_reclaim, std::nullopt);
  EXPECT_TRUE(loaded("evictionHard: {}\nownLimit: {other: off}").config.thresholds.empty());
  EXPECT_TRUE(loaded("evictionHard: {}\nuntilOom: {available: 0%}").config.thresholds.empty());
}

TEST(OwnThreshold, SwapIsGivenAsAQuantityOrAPercentage) {
  const auto absolute = loaded("evictionHard: {}\nswap: {available: 512Mi}").config;
  ASSERT_EQ(absolute.thresholds.size(), 1U);
  EXPECT_EQ(absolute.thresholds[0], on(Signal::swap_available, Limit::bytes(mib(512)), {}));
  const auto percent = loaded("evictionHard: {}\nswap: {available: 12.5%}").config;
  EXPECT_EQ(percent.thresholds[0].limit, Limit::share(0.125F));
  EXPECT_TRUE(loaded("evictionHard: {}\nswap: {available: 100%}").config.thresholds.empty());
}

TEST(Config, EveryKey) {
  const auto result = loaded(kEveryKey, kEveryManifestKey);
  Config expected;
  expected.dry_run = true;
  expected.thresholds = {
      on(kNode, Limit::share(0.05F), Limit::bytes(kib(1536))),
      on(kNode, Limit::share(0.1F), Limit::bytes(kib(1536))),
      on(kPods, Limit::share(0.05F), Limit::bytes(kib(1536))),
      on(Signal::memory_until_oom, Limit::share(0.02F), Limit::bytes(mib(16))),
      on(Signal::swap_available, Limit::share(0.1F), Limit::share(0.05F)),
      on(Signal::cgroup_memory_available, Limit::bytes(mib(64)), Limit::share(1.5F)),
      own_limit(WorkloadClass::burstable, Response::warn),
      own_limit(WorkloadClass::best_effort, Response::slow),
      own_limit(WorkloadClass::other, Response::evict)};
  expected.thresholds[1].grace = 90s;
  expected.thresholds[5].cgroup = "/batch.slice/*";
  expected.thresholds[5].capacity = gib(2);
  expected.thresholds[5].tune = true;
  expected.max_pod_grace_seconds = -1;
  expected.pressure_transition = 1min;
  expected.kernel_memcg_notification = true;
  expected.kube_reserved.cpu = decimal(1);
  expected.system_reserved.memory = binary(mib(1536).count);
  expected.local_storage_isolation = false;
  expected.cgroup_driver = CgroupDriver::systemd;
  expected.filesystems = {"/k", "/l", "/i", "/c", "unix:///run/containerd/containerd.sock"};
  expected.oom_score_adj = OomScoreAdj::enforce;
  expected.compat = {2s, false, false, false, false, false, true};
  expected.cgroup_root = "/kubelet";
  expected.workloads = {{"/batch.slice/*", "no", -10, gib(1), true},
                        {"/other.slice/?", std::nullopt, 1'000'000'000, std::nullopt, false}};
  expected.pod_rules = {{"A1-b2", "default/web", 2'000'001'000, Bytes{0}, true},
                        {"c3", std::nullopt, std::nullopt, std::nullopt, false}};
  expected.disabled.set(static_cast<std::size_t>(Feature::bpf));
  expected.disabled.set(static_cast<std::size_t>(Feature::poll));
  expected.release_timeout = 1500ms;
  expected.recheck_interval = 90s;
  expected.ranking = Ranking::kernel;
  expected.metrics_address = "[::1]:9464";
  expected.guard = true;
  expected.guard_expiry = 90s;
  expected.recording = RecordingPlace{"/var/lib/forestall/recording", gib(1)};
  expected.kill_limit = {5s, 6, {2, 3, 4, 5}};
  expected.watched_cgroups_max = 100;
  expected.pod_annotations = {{"payments", "team-?"}, {"*"}, {"batch"}};
  EXPECT_EQ(result.config, expected);
  EXPECT_TRUE(result.warnings.empty()) << result.warnings.front();
  EXPECT_EQ(result.files, (std::vector<std::string>{"config.yaml", "manifest.yaml"}));
}

// As in kubelet: a given value, even an empty one, inherits nothing from the default.
TEST(EvictionHard, GivenReplacesTheDefault) {
  EXPECT_TRUE(loaded("evictionHard: {}").config.thresholds.empty());
  EXPECT_EQ(loaded("evictionHard: {allocatableMemory.available: 1Gi}").config.thresholds,
            std::vector{on(kPods, Limit::bytes(gib(1)))});
}

// As in kubelet: the copy is added to a given one, with its own minimum reclaim.
TEST(EvictionHard, MemoryIsCopiedToAllocatable) {
  EXPECT_EQ(loaded("evictionHard: {memory.available: 1Gi, allocatableMemory.available: 2Gi}\n"
                   "evictionMinimumReclaim: {memory.available: 1Mi, "
                   "allocatableMemory.available: 2Mi}")
                .config.thresholds,
            (std::vector{on(kNode, Limit::bytes(gib(1)), Limit::bytes(mib(1))),
                         on(kPods, Limit::bytes(gib(2)), Limit::bytes(mib(2))),
                         on(kPods, Limit::bytes(gib(1)), Limit::bytes(mib(1)))}));
  // If the given and the copied one are equal, they are one threshold.
  EXPECT_EQ(loaded("evictionHard: {memory.available: 1Gi, allocatableMemory.available: 1024Mi}")
                .config.thresholds,
            (std::vector{on(kNode, Limit::bytes(gib(1))), on(kPods, Limit::bytes(gib(1)))}));
  // Kubelet copies when "pods" is enforced; Forestall, when pods are workloads.
  EXPECT_EQ(loaded("pods: {enabled: false}\nworkloads: [{cgroup: /a}]").config.thresholds.back(),
            on(Signal::imagefs_inodes_free, Limit::share(0.05F)));
}

// As in kubelet: exactly these two strings remove the entry.
TEST(EvictionHard, DropsZeroAndHundredPercent) {
  EXPECT_TRUE(loaded("evictionHard: {memory.available: 0%}").config.thresholds.empty());
  EXPECT_TRUE(loaded("evictionHard: {memory.available: 100%}").config.thresholds.empty());
  EXPECT_EQ(loaded("evictionHard: {memory.available: 0.0%}").config.thresholds.front().limit,
            Limit::share(0));
  EXPECT_EQ(loaded("evictionHard: {memory.available: 100.0%}").config.thresholds.front().limit,
            Limit::share(1));
}

// Text stays text: words that other readers parse as booleans, numbers or null are valid names.
TEST(Config, NamesAreTakenAsWritten) {
  for (const std::string name : {"no", "true", "1e3", "0x10", "'null'", "'~'", "2026-01-01"}) {
    const auto config = loaded("workloads: [{cgroup: /a, name: " + name + "}]").config;
    std::string bare = name;
    std::erase(bare, '\'');
    EXPECT_EQ(config.workloads.front().name, bare);
  }
}

TEST(Config, WatchedRootWithCapacity) {
  const auto result = loaded("watch: [{cgroup: /, available: 5%, capacity: 8Gi}]");
  EXPECT_EQ(result.config.thresholds.back().cgroup, "/");
  EXPECT_TRUE(result.warnings.empty());
}

TEST(Config, PodsBelowAWatchedCgroupAreWorkloads) {
  for (const std::string glob :
       {"/kubepods", "/kubepods.slice", "/kube*/burstable/pod*", "/kube*"}) {
    const auto result = loaded("watch: [{cgroup: " + glob + ", available: 5%}]");
    EXPECT_TRUE(result.warnings.empty()) << result.warnings.front();
  }
}

TEST(LoadConfig, ManifestIsRelativeToTheConfig) {
  const TempTree tree({{"etc/config.yaml", "manifest: m/manifest.yaml\n"},
                       {"etc/m/manifest.yaml", "pods: [{uid: a1}]\n"}});
  const auto result = load_file(tree / "etc/config.yaml");
  ASSERT_TRUE(result.ok()) << result.error().text();
  EXPECT_EQ(result->config.pod_rules.size(), 1U);
  EXPECT_EQ(result->files, (std::vector{tree / "etc/config.yaml", tree / "etc/m/manifest.yaml"}));
}

TEST(LoadConfig, AbsoluteManifest) {
  const TempTree tree({{"config.yaml", ""}, {"manifest.yaml", "pods: [{uid: a1}]\n"}});
  tree.write("config.yaml", "manifest: " + (tree / "manifest.yaml") + "\n");
  const auto result = load_file(tree / "config.yaml");
  ASSERT_TRUE(result.ok()) << result.error().text();
  EXPECT_EQ(result->config.pod_rules.size(), 1U);
}

TEST(LoadConfig, UnreadableFiles) {
  const TempTree tree({{"config.yaml", "manifest: gone.yaml\n"}, {"directory/", ""}});
  EXPECT_EQ(load_file(tree / "none.yaml").error().text(),
            "open " + (tree / "none.yaml") + ": No such file or directory");
  EXPECT_EQ(load_file(tree / "directory").error().text(),
            "read " + (tree / "directory") + ": Is a directory");
  EXPECT_EQ(load_file(tree / "config.yaml").error().text(),
            (tree / "config.yaml") + ":1:11: 'manifest' cannot be read: open " +
                (tree / "gone.yaml") + ": No such file or directory");
}

TEST(LoadConfig, TooLargeFile) {
  const TempTree tree({{"config.yaml", std::string((1 << 20) + 1, '#')}});
  EXPECT_EQ(load_file(tree / "config.yaml").error().text(),
            (tree / "config.yaml") + ":1:1: the file is larger than 1 MiB");
}

// --- the documented example -----------------------------------------------------------------

TEST(DeployedExample, EqualsTheBuiltIn) {
  const auto result = load_file(FORESTALL_DEPLOY "/config.yaml");
  ASSERT_TRUE(result.ok()) << result.error().text();
  EXPECT_TRUE(result->warnings.empty()) << result->warnings.front();
  EXPECT_EQ(result->config, intake::built_in_config());
}

// The commented examples must be accepted too: the test uncomments each list and drops its empty
// form.
TEST(DeployedExample, CommentedPartsAreValid) {
  std::string text = read_text(FORESTALL_DEPLOY "/config.yaml");
  std::string uncommented;
  bool in_example = false;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = text.find('\n', start);
    const std::string line = text.substr(start, end - start);
    start = end + 1;
    in_example = line.starts_with("# watch:") || line.starts_with("# workloads:") ||
                 line.starts_with("# manifest:") || (in_example && line.starts_with("#   "));
    if (line == "watch: []" || line == "workloads: []") continue;
    uncommented += (in_example ? line.substr(2) : line) + "\n";
  }
  const std::string manifest = read_text(FORESTALL_DEPLOY "/manifest.yaml");
  const auto result = loaded(uncommented, manifest);
  EXPECT_TRUE(result.warnings.empty()) << result.warnings.front();
  EXPECT_EQ(result.config.thresholds.size(), 7U);
  EXPECT_EQ(result.config.workloads.size(), 2U);
  EXPECT_EQ(result.config.pod_rules.size(), 1U);
}

// --- the README's examples -------------------------------------------------------------------

// Every block of YAML in it; the named files exist and are empty.
TEST(Readme, ItsExamplesAreAccepted) {
  const std::string text = read_text(FORESTALL_README);
  const std::string begin = "\n```yaml\n", end = "\n```\n";
  int examples = 0;
  for (auto at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    at += begin.size();
    const std::string example = text.substr(at, text.find(end, at) - at) + "\n";
    const auto result = load_text(example, [](const std::string& path) {
      return Result<std::string>(path.ends_with(".json") ? R"({"kind": "List", "items": []})" : "");
    });
    EXPECT_TRUE(result.ok()) << result.error().text() << "\n" << example;
    if (result.ok()) {
      EXPECT_TRUE(result->warnings.empty()) << result->warnings.front() << "\n" << example;
    }
    ++examples;
  }
  EXPECT_EQ(examples, 3);
}

}  // namespace
}  // namespace forestall::test
