// SPDX-License-Identifier: Apache-2.0
// `forestall qos` and `forestall admit`: results from the declarations of pods.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/pod_command_run.h"
#include "forestall/v1/report.pb.h"

namespace forestall::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> qos_arguments(const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"qos", "--pods", kubernetes_file("node.pods.json"),
                                     "--memory-capacity", "32Gi"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

const v1::PodQos& pod(const v1::QosReport& report, const std::string& name) {
  for (const v1::PodQos& each : report.pods()) {
    if (each.pod().name() == name) return each;
  }
  ADD_FAILURE() << "no pod " << name;
  return v1::PodQos::default_instance();
}

std::string printed(const std::vector<std::string>& arguments) {
  const Ran ran = run_forestall(arguments);
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  return ran.output;
}

std::string refusal(const std::vector<std::string>& arguments) {
  const Ran ran = run_forestall(arguments);
  EXPECT_EQ(ran.exit_code, 2) << ran.output;
  EXPECT_EQ(ran.output, "");
  return ran.errors;
}

TEST(Qos, TextMatchesTheGoldenFile) {
  EXPECT_EQ(printed(qos_arguments()), golden("qos_node.txt"));
}

TEST(Qos, ClassesRequestsAndScores) {
  const auto report = json_of<v1::QosReport>(qos_arguments());
  EXPECT_EQ(report.memory_capacity_bytes(), std::int64_t{32} << 30);
  const v1::PodQos& web = pod(report, "web-0");
  EXPECT_EQ(web.qos_class(), "Guaranteed");
  EXPECT_EQ(web.qos_class_from(), "status");
  EXPECT_FALSE(web.mismatch());
  EXPECT_EQ(web.containers(0).oom_score_adj(), -997);
  const v1::PodQos& batch = pod(report, "batch-7");
  EXPECT_EQ(batch.request().memory(), "420Mi");
  EXPECT_EQ(batch.request().cpu(), "2050m");
  EXPECT_EQ(batch.request().ephemeral_storage(), "1Gi");
  EXPECT_EQ(batch.containers_size(), 4);
  EXPECT_EQ(batch.containers(0).oom_score_adj(), 1000 - 1000 * 256 / 32768);
  EXPECT_EQ(batch.containers(2).kind(), "init-container");
  EXPECT_EQ(batch.containers(3).kind(), "sidecar");
  EXPECT_EQ(pod(report, "scraper").containers(0).oom_score_adj(), 1000);
  EXPECT_EQ(pod(report, "kube-proxy-8x2lq").containers(0).oom_score_adj(), -997);
}

TEST(Qos, CgroupsOfBothDrivers) {
  const auto report = json_of<v1::QosReport>(qos_arguments({"--runtime", "crio"}));
  const v1::PodQos& scraper = pod(report, "scraper");
  const std::string uid = scraper.pod().uid();
  std::string escaped = uid;
  std::replace(escaped.begin(), escaped.end(), '-', '_');
  EXPECT_EQ(scraper.cgroupfs(), "/kubepods/besteffort/pod" + uid);
  EXPECT_EQ(scraper.systemd(), "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" +
                                   escaped + ".slice");
  const v1::ContainerQos& main = scraper.containers(0);
  EXPECT_EQ(main.cgroupfs(), scraper.cgroupfs() + "/" + main.id());
  EXPECT_EQ(main.systemd(), scraper.systemd() + "/crio-" + main.id() + ".scope");
  // A static pod's cgroup is named by its hash.
  EXPECT_EQ(pod(report, "kube-apiserver-worker-1").cgroupfs(),
            "/kubepods/burstable/pod5a7c3d9e1f2b4a6c8d0e2f4a6b8c0d1e");
  // Without a started container there is no id.
  EXPECT_EQ(pod(report, "just-started").containers(0).cgroupfs(), "");
  const auto rooted = json_of<v1::QosReport>(qos_arguments({"--cgroup-root", "/a/b"}));
  EXPECT_EQ(pod(rooted, "scraper").cgroupfs(), "/a/b/kubepods/besteffort/pod" + uid);
}

TEST(Qos, AStatusThatContradictsTheResourcesIsShown) {
  const TempTree tree{{"pods.json", R"({"kind": "Pod", "metadata": {"uid": "u", "name": "odd"},
      "spec": {"containers": [{"name": "a"}]}, "status": {"qosClass": "Burstable"}})"}};
  const std::vector<std::string> arguments{"qos", "--pods", tree / "pods.json", "--memory-capacity",
                                           "1Gi"};
  const auto report = json_of<v1::QosReport>(arguments);
  EXPECT_EQ(report.pods(0).qos_class(), "Burstable");
  EXPECT_EQ(report.pods(0).computed_qos_class(), "BestEffort");
  EXPECT_TRUE(report.pods(0).mismatch());
  EXPECT_THAT(printed(arguments),
              HasSubstr("odd: Burstable (status, but its resources make it BestEffort)"));
}

TEST(Qos, MistakesAreRefused) {
  EXPECT_THAT(refusal({"qos", "--pods", "x"}), HasSubstr("--memory-capacity"));
  EXPECT_THAT(refusal({"qos", "--memory-capacity", "1Gi"}), HasSubstr("--pods"));
  EXPECT_THAT(refusal(qos_arguments({"--runtime", "docker"})), HasSubstr("docker"));
  EXPECT_THAT(refusal(qos_arguments({"--cgroup-root", "kube"})), HasSubstr("absolute path"));
  std::vector<std::string> arguments = qos_arguments();
  arguments[4] = "lots";
  EXPECT_THAT(refusal(arguments), HasSubstr("--memory-capacity: 'lots' is not an amount"));
  arguments[4] = "0";
  EXPECT_THAT(refusal(arguments), HasSubstr("--memory-capacity"));
}

std::vector<std::string> admit_arguments(const std::string& conditions) {
  return {"admit", "--pods", kubernetes_file("node.pods.json"), "--conditions", conditions};
}

std::vector<std::string> rejected(const v1::AdmitReport& report) {
  std::vector<std::string> names;
  for (const v1::AdmissionReport& each : report.pods()) {
    if (!each.admitted()) names.push_back(each.pod().name());
  }
  return names;
}

TEST(Admit, TextMatchesTheGoldenFile) {
  EXPECT_EQ(printed(admit_arguments("MemoryPressure")), golden("admit_node.txt"));
}

TEST(Admit, VerdictsByCondition) {
  EXPECT_THAT(rejected(json_of<v1::AdmitReport>(admit_arguments(""))), IsEmpty());
  const auto memory = json_of<v1::AdmitReport>(admit_arguments("MemoryPressure"));
  EXPECT_THAT(rejected(memory), ElementsAre("scraper", "done-job", "leaving", "elsewhere"));
  EXPECT_EQ(memory.pods(6).reason(), "Evicted");
  EXPECT_EQ(memory.pods(6).message(), "The node had condition: [MemoryPressure]. ");
  const auto both = json_of<v1::AdmitReport>(admit_arguments("MemoryPressure,DiskPressure"));
  EXPECT_THAT(rejected(both), ElementsAre("web-0", "batch-7", "resized", "budgeted", "scraper",
                                          "just-started", "done-job", "leaving", "elsewhere"));
  EXPECT_EQ(both.pods(2).message(), "The node had condition: [MemoryPressure DiskPressure]. ");
  EXPECT_THAT(refusal(admit_arguments("Pressure")), HasSubstr("unknown condition 'Pressure'"));
}

std::vector<std::string> preempt_arguments(const TempTree& tree, const std::string& allocatable) {
  return {"admit",         "--pods",   tree / "incoming.json", "--running", tree / "running.json",
          "--allocatable", allocatable};
}

std::string pod_json(const std::string& name, const std::string& memory, int priority) {
  return R"({"kind": "Pod", "metadata": {"uid": "uid-)" + name + R"(", "name": ")" + name +
         R"("}, "spec": {"priority": )" + std::to_string(priority) +
         R"(, "containers": [{"name": "a", "resources": {"requests": {"memory": ")" + memory +
         R"("}}}]}, "status": {"phase": "Running"}})";
}

TEST(Admit, CriticalPodsPreempt) {
  const TempTree tree{
      {"incoming.json", R"({"kind": "List", "items": [)" + pod_json("plain", "1Gi", 0) + "," +
                            pod_json("dns", "2Gi", 2000000000) + "]}"},
      {"running.json", R"({"kind": "List", "items": [)" + pod_json("small", "1Gi", 0) + "," +
                           pod_json("large", "3Gi", 0) + "," +
                           pod_json("vital", "3Gi", 2000000001) + "]}"}};
  const auto one = json_of<v1::AdmitReport>(preempt_arguments(tree, "memory=8Gi,pods=110"));
  ASSERT_EQ(one.preemptions_size(), 1);
  EXPECT_EQ(one.preemptions(0).pod().name(), "dns");
  EXPECT_EQ(one.preemptions(0).outcome(), "preempts");
  EXPECT_EQ(one.preemptions(0).lacking(), "memory");
  ASSERT_EQ(one.preemptions(0).victims_size(), 1);
  EXPECT_EQ(one.preemptions(0).victims(0).name(), "small");
  EXPECT_EQ(one.preemptions(0).reason(), "Preempting");
  EXPECT_EQ(one.preemptions(0).message(), "Preempted in order to admit critical pod");
  EXPECT_EQ(
      json_of<v1::AdmitReport>(preempt_arguments(tree, "memory=9Gi")).preemptions(0).outcome(),
      "fits");
  EXPECT_EQ(
      json_of<v1::AdmitReport>(preempt_arguments(tree, "memory=4Gi")).preemptions(0).outcome(),
      "impossible");
  EXPECT_THAT(printed(preempt_arguments(tree, "memory=8Gi")),
              HasSubstr("dns: lacks memory; preempts, with reason Preempting"));
  EXPECT_THAT(refusal(preempt_arguments(tree, "gpu=1")), HasSubstr("unknown resource 'gpu'"));
  EXPECT_THAT(refusal(preempt_arguments(tree, "memory")), HasSubstr("RESOURCE=QUANTITY"));
  EXPECT_THAT(refusal(preempt_arguments(tree, "memory=x")),
              HasSubstr("--allocatable: memory: quantities must match"));
}

}  // namespace
}  // namespace forestall::test
