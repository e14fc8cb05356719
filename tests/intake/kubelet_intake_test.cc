// SPDX-License-Identifier: Apache-2.0
// Kubelet's settings from flags, files and our configuration: every line of
// tests/data/config/kubelet_refused.txt, and the effective settings of accepted ones
// (pkg/kubelet/eviction/helpers.go ParseThresholdConfig()).
#include <gtest/gtest.h>

#include <map>

#include "intake/config_cases.h"
#include "intake/config_file.h"

namespace forestall::test::kubelet_intake_test {
namespace {

using namespace std::chrono_literals;
using Files = std::map<std::string, std::string>;

constexpr const char* kHead =
    "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n";

Result<intake::LoadedConfig> load(const Files& files, const intake::GivenFlags& flags = {}) {
  intake::ConfigInputs inputs;
  if (files.contains("config.yaml")) inputs.config = "config.yaml";
  if (files.contains("kubelet.yaml")) inputs.kubelet_config = "kubelet.yaml";
  inputs.flags = flags;
  return intake::load_config(inputs, [&](const std::string& path) -> Result<std::string> {
    const auto file = files.find(path);
    if (file == files.end()) return Error{ENOENT, "open " + path};
    return file->second;
  });
}

// The thresholds as text: "memory.available<100Mi", " soft 1m30s", " +500Mi", " copied".
std::vector<std::string> thresholds(const Result<intake::LoadedConfig>& loaded) {
  if (!loaded) return {loaded.error().text()};
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < loaded->config.thresholds.size(); ++i) {
    const Threshold& each = loaded->config.thresholds[i];
    std::string line = std::string(to_string(each.signal)) + "<" + loaded->origins[i].value;
    if (!each.hard()) line += " soft " + std::to_string(each.grace / 1s) + "s";
    if (each.min_reclaim) line += " +" + loaded->origins[i].minimum_reclaim.value_or("?");
    if (loaded->origins[i].copied) line += " copied";
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> of_kubelet(const std::string& keys) {
  return thresholds(load({{"kubelet.yaml", kHead + keys}}));
}

std::vector<std::string> of_flags(const intake::GivenFlags& flags) {
  return thresholds(load({}, flags));
}

using Lines = std::vector<std::string>;

const Lines kDefaults{"memory.available<100Mi", "nodefs.available<10%",
                      "nodefs.inodesFree<5%",   "imagefs.available<15%",
                      "imagefs.inodesFree<5%",  "allocatableMemory.available<100Mi copied"};

// --- the table ----------------------------------------------------------------------------------

std::vector<ConfigCase> refused() {
  return read_config_cases(FORESTALL_TEST_DATA "/config/kubelet_refused.txt");
}

class RefusedKubeletConfig : public testing::TestWithParam<ConfigCase> {};

TEST_P(RefusedKubeletConfig, ReportsTheReason) {
  const auto loaded = load({{"kubelet.yaml", GetParam().config}});
  ASSERT_FALSE(loaded.ok()) << GetParam().config;
  EXPECT_EQ(loaded.error().text(), GetParam().expected) << GetParam().config;
}

std::string test_name(const testing::TestParamInfo<ConfigCase>& info) {
  std::string name;
  for (const char c : info.param.name) {
    name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Table, RefusedKubeletConfig, testing::ValuesIn(refused()), test_name);

TEST(KubeletCases, AreThere) {
  EXPECT_GE(refused().size(), 35U);
}

// --- defaults and merging -----------------------------------------------------------------------

TEST(KubeletDefaults, ApplyWithoutSettings) {
  EXPECT_EQ(thresholds(load({})), kDefaults);
  EXPECT_EQ(of_kubelet(""), kDefaults);
  EXPECT_EQ(of_kubelet("evictionHard:\n"), kDefaults);  // null is absent
  EXPECT_EQ(of_kubelet("mergeDefaultEvictionSettings: true\n"), kDefaults);
}

TEST(KubeletDefaults, AreGoneWhenAnyIsNamed) {
  EXPECT_EQ(of_kubelet("evictionHard: {}\n"), Lines());
  EXPECT_EQ(of_kubelet("evictionHard: {nodefs.available: 1Gi}\n"), Lines{"nodefs.available<1Gi"});
}

TEST(KubeletDefaults, AreMergedAfterNamedOnes) {
  EXPECT_EQ(of_kubelet("mergeDefaultEvictionSettings: true\n"
                       "evictionHard: {pid.available: 5%, imagefs.available: 20%, "
                       "memory.available: 0%}\n"),
            (Lines{"pid.available<5%", "imagefs.available<20%", "nodefs.available<10%",
                   "nodefs.inodesFree<5%", "imagefs.inodesFree<5%"}));
  // Kubelet merges defaults into its file before it reads flags.
  EXPECT_EQ(thresholds(load(
                {{"kubelet.yaml", std::string(kHead) + "mergeDefaultEvictionSettings: true\n"}},
                {{"eviction-hard", {"pid.available<5%"}}})),
            Lines{"pid.available<5%"});
}

TEST(KubeletDefaults, DependOnTheVersion) {
  Lines before = kDefaults;
  std::erase(before, "imagefs.inodesFree<5%");
  EXPECT_EQ(thresholds(load({{"config.yaml", "compat: {kubeletVersion: v1.29.3-gke.1}"}})), before);
  EXPECT_EQ(thresholds(load({{"config.yaml", "compat: {kubeletVersion: \"1.30\"}"}})), kDefaults);
}

// --- order, grace, copies -----------------------------------------------------------------------

TEST(KubeletThresholds, HardThenSoftThenCopiesAsWritten) {
  EXPECT_EQ(
      of_kubelet("evictionSoftGracePeriod: {memory.available: 1m30s, nodefs.available: 2h}\n"
                 "evictionSoft: {nodefs.available: 15%, memory.available: 1.5Gi}\n"
                 "evictionHard: {pid.available: \"1000\", memory.available: 500Mi}\n"
                 "evictionMinimumReclaim: {memory.available: \"0\", nodefs.available: 2Gi}\n"),
      (Lines{"pid.available<1000", "memory.available<500Mi", "nodefs.available<15% soft 7200s +2Gi",
             "memory.available<1.5Gi soft 90s", "allocatableMemory.available<500Mi copied"}));
}

TEST(KubeletThresholds, ZeroGraceMakesASoftThresholdHard) {
  EXPECT_EQ(of_kubelet("evictionHard: {memory.available: 100Mi}\n"
                       "evictionSoft: {memory.available: 1Gi}\n"
                       "evictionSoftGracePeriod: {memory.available: \"0\"}\n"
                       "evictionMinimumReclaim: {memory.available: 10%}\n"),
            (Lines{"memory.available<100Mi +10%", "memory.available<1Gi +10%",
                   "allocatableMemory.available<100Mi +10% copied",
                   "allocatableMemory.available<1Gi +10% copied"}));
}

TEST(KubeletThresholds, CopiesNeedPodsEnforced) {
  const std::string hard = "evictionHard: {memory.available: 1Gi}\n";
  const Lines alone{"memory.available<1Gi"};
  EXPECT_EQ(of_kubelet(hard + "enforceNodeAllocatable: []\n"), alone);
  EXPECT_EQ(of_kubelet(hard + "enforceNodeAllocatable: [none]\n"), alone);
  EXPECT_EQ(of_kubelet(hard + "enforceNodeAllocatable: [kube-reserved]\n"), alone);
  EXPECT_EQ(of_kubelet(hard + "enforceNodeAllocatable: [kube-reserved, pods]\n").size(), 2U);
  EXPECT_EQ(of_kubelet(hard + "enforceNodeAllocatable:\n").size(), 2U);
}

TEST(KubeletThresholds, DroppedSoftThresholdsNeedNoGrace) {
  EXPECT_EQ(of_kubelet("evictionHard: {}\nevictionSoft: {memory.available: 100%}\n"), Lines());
}

// Kept as written for messages: 1.5Gi is binary, 1G is not.
TEST(KubeletThresholds, QuantitiesKeepTheirForm) {
  const auto loaded = load({}, {{"eviction-hard", {"memory.available<1.5Gi,nodefs.available<2G"}}});
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->config.thresholds[0].limit.quantity->text(), "1536Mi");
  EXPECT_EQ(loaded->config.thresholds[1].limit.quantity->text(), "2G");
}

// --- everything else ----------------------------------------------------------------------------

TEST(KubeletConfig, EveryKey) {
  const auto loaded = load({{"kubelet.yaml", std::string(kHead) + R"(
evictionMaxPodGracePeriod: 60
evictionPressureTransitionPeriod: 30s
kernelMemcgNotification: yes
enforceNodeAllocatable: [pods, system-reserved]
kubeReserved: {cpu: 500m, memory: 1Gi, pid: "1000"}
systemReserved: {memory: 1.5Gi, ephemeral-storage: 2Gi}
localStorageCapacityIsolation: false
cgroupDriver: systemd
cgroupRoot: kubelet/
podLogsDir: /data/logs
containerRuntimeEndpoint: unix:///run/crio/crio.sock
imageServiceEndpoint: ""
authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 0s}}
clusterDNS: [10.96.0.10]
kubeReservedCgroup: /podruntime.slice
systemReservedCgroup: /system.slice
cgroupsPerQOS: true
logging: {flushFrequency: 0, options: {json: {infoBufferSize: "0"}}}
memoryThrottlingFactor: 0.9
)"}});
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  EXPECT_TRUE(loaded->warnings.empty()) << loaded->warnings.front();
  Config expected = intake::built_in_config();
  expected.max_pod_grace_seconds = 60;
  expected.pressure_transition = 30s;
  expected.kernel_memcg_notification = true;
  expected.enforced = {Enforcement::pods, Enforcement::system_reserved};
  expected.kube_reserved = {*parse_quantity("500m"), binary(1 << 30), {}, decimal(1000)};
  expected.system_reserved = {{}, *parse_quantity("1.5Gi"), *parse_quantity("2Gi"), {}};
  expected.local_storage_isolation = false;
  expected.cgroup_driver = CgroupDriver::systemd;
  expected.cgroup_root = "/kubelet";
  expected.filesystems.pod_logs = "/data/logs";
  expected.filesystems.runtime = "unix:///run/crio/crio.sock";
  EXPECT_EQ(loaded->config, expected);
  EXPECT_EQ(loaded->files, Lines{"kubelet.yaml"});
}

TEST(KubeletConfig, ZeroTransitionPeriodMeansTheDefault) {
  const auto loaded =
      load({{"kubelet.yaml", std::string(kHead) + "evictionPressureTransitionPeriod: 0s\n"}});
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  EXPECT_EQ(loaded->config.pressure_transition, 5min);
}

TEST(KubeletConfig, IntegersAsYamlHasThem) {
  for (const auto& [text, value] : std::initializer_list<std::pair<std::string, int>>{
           {"-1", -1}, {"0x1e", 30}, {"036", 30}, {"30.0", 30}, {"3e1", 30}, {"1_0", 10}}) {
    const auto loaded = load({{"kubelet.yaml", kHead + ("evictionMaxPodGracePeriod: " + text)}});
    ASSERT_TRUE(loaded.ok()) << loaded.error().text();
    EXPECT_EQ(loaded->config.max_pod_grace_seconds, value) << text;
  }
}

TEST(KubeletConfig, JsonWithTabs) {
  EXPECT_EQ(thresholds(load({{"kubelet.yaml",
                              "{\n\t\"kind\": \"KubeletConfiguration\",\n"
                              "\t\"apiVersion\": \"kubelet.config.k8s.io/v1beta1\",\n"
                              "\t\"evictionHard\": {\"nodefs.inodesFree\":\"7%\"},\n"
                              "\t\"enforceNodeAllocatable\": null\n}\n"}})),
            Lines{"nodefs.inodesFree<7%"});
}

// --- precedence ---------------------------------------------------------------------------------

TEST(Fronts, FlagsBeforeOursBeforeKubelets) {
  const Files files{
      {"config.yaml", "evictionHard: {memory.available: 2Gi}\nevictionMaxPodGracePeriod: 2\n"},
      {"kubelet.yaml", std::string(kHead) + "evictionHard: {memory.available: 3Gi}\n"
                                            "evictionMaxPodGracePeriod: 3\n"
                                            "evictionMinimumReclaim: {memory.available: 4Gi}\n"}};
  const auto loaded = load(files, {{"eviction-hard", {"memory.available<1Gi"}}});
  EXPECT_EQ(thresholds(loaded),
            (Lines{"memory.available<1Gi +4Gi", "allocatableMemory.available<1Gi +4Gi copied"}));
  EXPECT_EQ(loaded->config.max_pod_grace_seconds, 2);
  EXPECT_EQ(
      loaded->warnings,
      (Lines{"config.yaml:1:1: 'evictionHard' takes precedence here; the value at "
             "kubelet.yaml:3:1 is ignored",
             "config.yaml:2:1: 'evictionMaxPodGracePeriod' takes precedence here; the value at "
             "kubelet.yaml:4:1 is ignored"}));
  EXPECT_EQ(to_string(loaded->origins[0].origin), "--eviction-hard");
}

TEST(Fronts, KubeletsFileNamedInOurs) {
  const Files files{{"config.yaml", "kubeletConfig: k.yaml\n"},
                    {"k.yaml", std::string(kHead) + "evictionHard: {memory.available: 3Gi}\n"}};
  const auto loaded = load(files);
  EXPECT_EQ(thresholds(loaded).front(), "memory.available<3Gi");
  EXPECT_EQ(to_string(loaded->origins[0].origin), "k.yaml:3:34");
  EXPECT_EQ(loaded->files, (Lines{"config.yaml", "k.yaml"}));
}

TEST(Fronts, ErrorsOfAllAreReported) {
  const auto loaded = load({{"config.yaml", "dryRun: maybe\n"},
                            {"kubelet.yaml", std::string(kHead) + "evictionHard: 1\n"}},
                           {{"eviction-soft", {"memory.available=1Gi"}}});
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().text(),
            "config.yaml:1:9: 'dryRun' must be true or false, found 'maybe'\n"
            "kubelet.yaml:3:15: 'evictionHard' must be a map, found '1'\n"
            "--eviction-soft: malformed pair, expect string<string, found 'memory.available=1Gi'");
}

TEST(Fronts, CompatShorthandAndItsExceptions) {
  const auto loaded =
      load({{"config.yaml", "compat: {kubeletVersion: \"1.26\", softGraceIsLesser: true}"}});
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  EXPECT_EQ(loaded->config.compat.hard_grace, 0s);
  EXPECT_TRUE(loaded->config.compat.soft_grace_is_lesser);
  EXPECT_EQ(load({{"config.yaml", "compat: {kubeletVersion: 1.27.0}"}})->config.compat, Compat());
}

// --- flags --------------------------------------------------------------------------------------

TEST(KubeletFlags, MistakesInTheOrderKubeletReads) {
  const auto loaded = load({}, {{"eviction-minimum-reclaim", {"pid.available=-1"}},
                                {"eviction-soft-grace-period", {"pid.available=-1s"}},
                                {"eviction-soft", {"pid.available<-2"}},
                                {"eviction-hard", {"pid.available<-3"}}});
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().text(),
            "--eviction-hard: 'pid.available' must be positive, found '-3'\n"
            "--eviction-soft: 'pid.available' must be positive, found '-2'\n"
            "--eviction-soft-grace-period: 'pid.available': invalid eviction grace period "
            "specified: -1s, must be a positive value\n"
            "--eviction-minimum-reclaim: 'pid.available' must not be negative, found '-1'");
}

TEST(KubeletFlags, MapGrammar) {
  EXPECT_EQ(of_flags({{"eviction-hard", {",, memory.available < 1Gi ,,nodefs.available<10%,"}}}),
            (Lines{"memory.available<1Gi", "nodefs.available<10%",
                   "allocatableMemory.available<1Gi copied"}));
  // The last of two counts; a repeated flag appends; the first one clears the defaults.
  EXPECT_EQ(
      of_flags({{"eviction-hard", {"pid.available<1%,nodefs.available<1%", "pid.available<2%"}}}),
      (Lines{"pid.available<2%", "nodefs.available<1%"}));
  EXPECT_EQ(of_flags({{"eviction-hard", {""}}}), Lines());
  // Only the first separator splits.
  EXPECT_EQ(of_flags({{"eviction-hard", {"memory.available<1<2"}}}),
            Lines{"--eviction-hard: 'memory.available': '1<2' is not an amount; write a quantity "
                  "like 100Mi or 1.5Gi, or a percentage like 5%"});
  EXPECT_EQ(of_flags({{"eviction-hard", {"memory.available"}}}),
            Lines{"--eviction-hard: malformed pair, expect string<string, found "
                  "'memory.available'"});
  EXPECT_EQ(of_flags({{"eviction-hard", {" "}}}),
            Lines{"--eviction-hard: malformed pair, expect string<string, found ' '"});
  EXPECT_EQ(of_flags({{"eviction-minimum-reclaim", {"memory.available<1"}}}),
            Lines{"--eviction-minimum-reclaim: malformed pair, expect string=string, found "
                  "'memory.available<1'"});
}

TEST(KubeletFlags, SoftThresholds) {
  EXPECT_EQ(of_flags({{"eviction-hard", {""}},
                      {"eviction-soft", {"memory.available<1Gi"}},
                      {"eviction-soft-grace-period", {"memory.available=1m30s"}},
                      {"eviction-minimum-reclaim", {"memory.available=500Mi"}}}),
            Lines{"memory.available<1Gi soft 90s +500Mi"});
  EXPECT_EQ(of_flags({{"eviction-soft", {"memory.available<1Gi"}}}),
            Lines{"--eviction-soft: grace period must be specified for the soft eviction threshold "
                  "memory.available; add it to 'evictionSoftGracePeriod'"});
}

TEST(KubeletFlags, OtherTypes) {
  const auto loaded = load({}, {{"eviction-max-pod-grace-period", {"1", "0x1_0"}},
                                {"eviction-pressure-transition-period", {"1m"}},
                                {"kernel-memcg-notification", {"true"}},
                                {"local-storage-capacity-isolation", {"F"}},
                                {"enforce-node-allocatable", {"pods,kube-reserved"}},
                                {"kube-reserved", {"cpu=1,memory=2Gi"}},
                                {"cgroup-driver", {"systemd"}},
                                {"cgroup-root", {""}}});
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  const Config& config = loaded->config;
  EXPECT_EQ(config.max_pod_grace_seconds, 16);
  EXPECT_EQ(config.pressure_transition, 1min);
  EXPECT_TRUE(config.kernel_memcg_notification);
  EXPECT_FALSE(config.local_storage_isolation);
  EXPECT_EQ(config.enforced, (std::vector{Enforcement::pods, Enforcement::kube_reserved}));
  EXPECT_EQ(config.kube_reserved.cpu, decimal(1));
  EXPECT_EQ(config.cgroup_driver, CgroupDriver::systemd);
  EXPECT_EQ(config.cgroup_root, "/");
  for (const auto& [flag, value] : std::initializer_list<std::pair<std::string, std::string>>{
           {"eviction-max-pod-grace-period", "1_0"},
           {"eviction-max-pod-grace-period", "2147483648"},
           {"eviction-max-pod-grace-period", ""},
           {"kernel-memcg-notification", "yes"},
           {"eviction-pressure-transition-period", "5"}}) {
    EXPECT_FALSE(load({}, {{flag, {value}}}).ok()) << flag << "=" << value;
  }
}

// Every flag belongs to an existing setting.
TEST(KubeletFlags, HaveSettings) {
  std::vector<std::string> keys;
  intake::for_each_setting([&](const char* key, auto) { keys.emplace_back(key); });
  for (const intake::KubeletFlag& flag : intake::kubelet_flags()) {
    EXPECT_NE(std::find(keys.begin(), keys.end(), flag.key), keys.end()) << flag.key;
  }
}

}  // namespace
}  // namespace forestall::test::kubelet_intake_test
