// SPDX-License-Identifier: Apache-2.0
// `kubectl forestall` against a fake API server.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cli/companion_program.h"
#include "cli/exit_code.h"
#include "cluster/api_reader.h"
#include "cluster/kubectl_command.h"
#include "cluster/kubectl_options.h"
#include "support/fake_api_server.h"

namespace forestall::cluster::kubectl_test {
namespace {

using Kind = KubectlOptions::Kind;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kReports = "/apis/forestall.dev/v1alpha1/nodereports?limit=500";
constexpr const char* kNodes = "/api/v1/nodes?limit=500";
constexpr const char* kEvents =
    "/api/v1/namespaces/shop/events?fieldSelector=source%3Dforestall&limit=500";
constexpr const char* kPod = "/api/v1/namespaces/shop/pods/web-0";
constexpr const char* kPodEvents =
    "/api/v1/namespaces/shop/events?fieldSelector=involvedObject.kind%3DPod%2C"
    "involvedObject.name%3Dweb-0&limit=500";

std::string items(const std::vector<std::string>& objects) {
  return fmt::format(R"({{"metadata":{{}},"items":[{}]}})", fmt::join(objects, ","));
}

constexpr std::int64_t kNow = 1'764'093'600;  // 2025-11-25T18:00:00Z
constexpr const char* kFourMinutesAgo = "2025-11-25T17:56:00Z";

std::string node_with(const std::string& name, const std::string& pressure,
                      const std::string& metadata = "",
                      const std::string& heartbeat = kFourMinutesAgo) {
  return fmt::format(
      R"({{"metadata":{{"name":"{0}","resourceVersion":"7"{2}}},"spec":{{"taints":[)"
      R"({{"key":"forestall.dev/memory-pressure","effect":"NoSchedule"}}]}},"status":)"
      R"({{"conditions":[{{"type":"Ready","status":"True","lastHeartbeatTime":)"
      R"("2025-11-25T18:00:00Z"}},{{"type":"ForestallMemoryPressure","status":"{1}",)"
      R"("lastHeartbeatTime":"{3}"}}]}}}})",
      name, pressure, metadata, heartbeat);
}

std::string event_about(const std::string& uid, const std::string& reason, const std::string& last,
                        const std::string& component = "forestall") {
  return fmt::format(
      R"({{"metadata":{{"name":"e","annotations":{{"starved_resource":"memory",)"
      R"("offending_containers":""}}}},)"
      R"("involvedObject":{{"kind":"Pod","namespace":"shop","name":"web-0","uid":"{}"}},)"
      R"("reason":"{}","message":"The node was low on resource: memory. ","source":)"
      R"({{"component":"{}","host":"here"}},"firstTimestamp":"2025-11-25T18:00:00Z",)"
      R"("lastTimestamp":"{}","count":2}})",
      uid, reason, component, last);
}

std::string web_pod(const std::string& spec = "") {
  return fmt::format(
      R"({{"metadata":{{"uid":"u1","name":"web-0","namespace":"shop"}},"spec":{{"nodeName":"here",)"
      R"("priority":5{},"containers":[{{"name":"c"}}]}},"status":{{"phase":"Running",)"
      R"("qosClass":"BestEffort"}}}})",
      spec);
}

class KubectlTest : public ::testing::Test {
 protected:
  KubectlTest()
      : server_([this](const test::ApiRequest& request) {
          const std::lock_guard lock(mutex_);
          const auto found = answers_.find(request.target);
          if (found != answers_.end()) return test::json_answer(200, found->second);
          if (request.target == forbidden_) {
            return test::json_answer(403,
                                     R"({"kind":"Status","message":"no","reason":"Forbidden"})");
          }
          return test::json_answer(404,
                                   R"({"kind":"Status","reason":"NotFound","message":"none"})");
        }) {
    kubernetes::Access access;
    access.server = server_.url();
    api_.emplace(ApiReader::create(access).value());
    options_.pod_namespace = "shop";
    options_.object = "web-0";
    options_.wall_seconds = kNow;
  }

  std::string text_of(Result<KubectlReport> (*report)(ApiReader&, const KubectlOptions&)) {
    auto made = report(*api_, options_);
    if (!made) return "failed: " + made.error().text();
    notes_ = std::move(made->notes);
    return made->text;
  }

  std::mutex mutex_;
  std::map<std::string, std::string> answers_;  // by target
  std::string forbidden_;
  test::FakeApiServer server_;
  std::optional<ApiReader> api_;
  KubectlOptions options_;
  std::vector<std::string> notes_;
};

TEST_F(KubectlTest, ListsNodesWithTheirLastReports) {
  answers_[kNodes] =
      items({node_with("a", "True"),
             node_with("b", "Unknown", R"(,"annotations":{"forestall.dev/unguarded":"x"})"),
             R"({"metadata":{"name":"c","resourceVersion":"1"}})"});
  answers_[kReports] = items({R"({"metadata":{"name":"a"},"status":{"time":"2025-11-25T18:00:00Z",)"
                              R"("memory":{"capacity":"16Gi","workingSet":8589934592},)"
                              R"("memoryStallPercent":{"full":1.5},"lastHour":{"evictions":3}}})"});
  EXPECT_EQ(text_of(report_nodes),
            "  node  guarded  pressure  taint  working set  capacity  full stall %  evictions/h  "
            "oom kills/h  reported\n"
            "  a     yes      True      yes    8.0 GiB      16Gi      1.5           3            "
            "-            2025-11-25T18:00:00Z\n"
            "  b     no       Unknown   yes    -            -         -             -            "
            "-            -\n"
            "  c     unknown  -         no     -            -         -             -            "
            "-            -\n");
  EXPECT_TRUE(notes_.empty());
  options_.json = true;
  EXPECT_THAT(text_of(report_nodes), HasSubstr(R"("workingSet": "8589934592")"));
}

// The condition of a node whose programs have ended stays as it was.
TEST_F(KubectlTest, TheGuardOfANodeWithAnOldConditionIsUnknown) {
  answers_[kReports] = items({});
  answers_[kNodes] = items({node_with("a", "False", "", "2025-11-25T17:49:59Z"),
                            node_with("b", "False", "", "2025-11-25T17:50:00Z"),
                            node_with("c", "True", "", "2025-11-25T18:10:01Z"),
                            node_with("d", "True", "", "a moment ago"), node_with("e", "Unknown")});
  const std::string text = text_of(report_nodes);
  EXPECT_THAT(text, HasSubstr("a     unknown  -         yes "));
  EXPECT_THAT(text, HasSubstr("b     yes      False     yes "));
  EXPECT_THAT(text, HasSubstr("c     unknown  -         yes "));
  EXPECT_THAT(text, HasSubstr("d     unknown  -         yes "));
  EXPECT_THAT(text, HasSubstr("e     unknown  Unknown   yes "));
  EXPECT_THAT(notes_[0], HasSubstr("the guard of 3 nodes is unknown"));
  EXPECT_THAT(notes_[0], HasSubstr("a (2025-11-25T17:49:59Z), c (2025-11-25T18:10:01Z), d ("));
  options_.json = true;
  EXPECT_THAT(text_of(report_nodes), HasSubstr(R"("guarded": "unknown",
      "lastHeartbeatTime": "2025-11-25T17:49:59Z")"));
  options_.json = false;
  answers_[kPod] = web_pod();
  answers_[kPodEvents] = items({});
  answers_["/api/v1/nodes/here"] = node_with("here", "False", "", "2025-11-25T17:49:59Z");
  EXPECT_THAT(text_of(report_pod), HasSubstr("no current report: the last one was at "
                                             "2025-11-25T17:49:59Z"));
}

// The API server does not have the agent's configuration.
TEST_F(KubectlTest, WhyNamesForestallsAnnotationsAndWhatTheyDependOn) {
  std::string annotated = web_pod();
  const std::string metadata = R"("metadata":{)";
  annotated.insert(annotated.find(metadata) + metadata.size(),
                   R"("annotations":{"forestall.dev/avoid":"yes\n","other":"x"},)");
  answers_[kPod] = annotated;
  answers_[kPodEvents] = items({});
  const std::string text = text_of(report_pod);
  EXPECT_THAT(text, HasSubstr("annotation forestall.dev/avoid: 'yes\\n', which has an effect if "
                              "podAnnotations of the node's agent lists the namespace"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("other")));
  options_.json = true;
  EXPECT_THAT(text_of(report_pod), HasSubstr(R"("forestall.dev/avoid": "yes\n")"));
}

TEST_F(KubectlTest, ReportsThatNoNodeReportIsPublished) {
  answers_[kNodes] = items({node_with("a", "False")});
  EXPECT_THAT(text_of(report_nodes), HasSubstr("a     yes      False"));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("no kind NodeReport of forestall.dev/v1alpha1")));
  answers_[kReports] = items({});
  EXPECT_THAT(text_of(report_nodes), HasSubstr("a     yes      False"));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("no NodeReport is published")));
  answers_.erase(kReports);
  forbidden_ = kReports;
  EXPECT_THAT(text_of(report_nodes), HasSubstr("a     yes      False"));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("403 Forbidden")));
}

TEST_F(KubectlTest, ReadsAListPageByPage) {
  answers_[kNodes] = R"({"metadata":{"continue":"x/y"},"items":[)" + node_with("a", "True") + "]}";
  answers_[std::string(kNodes) + "&continue=x%2Fy"] = items({node_with("b", "True")});
  const std::string text = text_of(report_nodes);
  EXPECT_THAT(text, HasSubstr("\n  a  "));
  EXPECT_THAT(text, HasSubstr("\n  b  "));
}

TEST_F(KubectlTest, ListsEventsOfForestallOnly) {
  answers_[kEvents] = items({event_about("u1", "KernelOOMKilled", "2025-11-25T19:00:00Z"),
                             event_about("u1", "Evicted", "2025-11-25T18:30:00Z"),
                             event_about("u1", "BackOff", "2025-11-25T18:30:00Z", "kubelet")});
  EXPECT_EQ(text_of(report_events),
            "  last                  count  reason           object      node  message\n"
            "  2025-11-25T18:30:00Z  2      Evicted          shop/web-0  here  The node was low on "
            "resource: memory.\n"
            "  2025-11-25T19:00:00Z  2      KernelOOMKilled  shop/web-0  here  The node was low on "
            "resource: memory.\n");
  options_.json = true;
  EXPECT_THAT(text_of(report_events), HasSubstr(R"("starved_resource": "memory")"));
}

// Every user with the right to create Events may set any count.
TEST_F(KubectlTest, AnEventWithAnImpossibleCountHidesNoOther) {
  std::string forged = event_about("u1", "Forged", "2025-11-25T18:30:00Z");
  forged.replace(forged.find("\"count\":2"), 9, "\"count\":-1");
  answers_[kEvents] = items({forged, event_about("u1", "Evicted", "2025-11-25T18:40:00Z")});
  const std::string text = text_of(report_events);
  EXPECT_THAT(text, HasSubstr("2025-11-25T18:30:00Z  1      Forged"));
  EXPECT_THAT(text, HasSubstr("2025-11-25T18:40:00Z  2      Evicted"));
}

TEST_F(KubectlTest, AnUnreadableEventHidesNoOther) {
  const std::string bad =
      R"({"metadata":{"name":"x"},"source":{"component":"forestall"},"reason":"Evicted"})";
  answers_[kEvents] =
      items({bad, event_about("u1", "Evicted", "2025-11-25T18:40:00Z"), R"({"source":"none"})"});
  EXPECT_THAT(text_of(report_events), HasSubstr("2025-11-25T18:40:00Z  2      Evicted"));
  EXPECT_THAT(notes_, ElementsAre(AllOf(HasSubstr("2 Events are not shown"),
                                        HasSubstr("items[0]: 'involvedObject' is missing"))));
  answers_[kPodEvents] = items({bad, event_about("u1", "Evicted", "2025-11-25T18:30:00Z")});
  EXPECT_THAT(text_of(report_pod), HasSubstr("evicted by Forestall\n"));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("1 Event is not shown")));
}

// Every user with the right to create Events may write any text into one.
TEST_F(KubectlTest, TheTextOfAnEventIsOneLine) {
  std::string forged = event_about("u1", "Warned", "2025-11-25T18:30:00Z");
  const std::string text = R"(a\nevicted by Forestall\n\u001b[2J\u009b2J\u202eb)";
  forged.replace(forged.find("The node was"), 12, text);
  forged.replace(forged.find("starved_resource"), 16, R"(k\nevicted by Forestall\nv)");
  answers_[kPod] = web_pod();
  answers_["/api/v1/nodes/here"] = node_with("here", "False");
  answers_[kPodEvents] = items({forged});
  answers_[kEvents] = items({forged});
  const std::string shown = R"(a\nevicted by Forestall\n\x1b[2J\xc2\x9b2J\xe2\x80\xaeb)";
  const std::string why = text_of(report_pod);
  EXPECT_THAT(why, HasSubstr("Warned (2 times): " + shown));
  EXPECT_THAT(why, HasSubstr("\n  k\\nevicted by Forestall\\nv: memory\n"));
  EXPECT_THAT(why, ::testing::Not(HasSubstr("\nevicted by Forestall")));
  EXPECT_THAT(text_of(report_events), HasSubstr("here  " + shown));
  options_.json = true;
  EXPECT_THAT(text_of(report_pod), HasSubstr("\"message\": \"" + text));
  EXPECT_THAT(text_of(report_events), HasSubstr("\"message\": \"" + text));
}

TEST_F(KubectlTest, AMisspeltPodIsAnError) {
  answers_[kPodEvents] = items({event_about("u1", "BackOff", "2025-11-25T18:30:00Z", "kubelet")});
  EXPECT_THAT(text_of(report_pod),
              HasSubstr("failed: no pod shop/web-0, and no Event of Forestall about one of this "
                        "name"));
  options_.json = true;
  EXPECT_THAT(text_of(report_pod), HasSubstr("failed: no pod shop/web-0"));
}

TEST_F(KubectlTest, ListsEventsOfAllNamespaces) {
  options_.all_namespaces = true;
  answers_["/api/v1/events?fieldSelector=source%3Dforestall&limit=500"] = items({});
  EXPECT_THAT(text_of(report_events), HasSubstr("no Events of Forestall in any namespace"));
}

TEST_F(KubectlTest, ReportsARefusal) {
  forbidden_ = kEvents;
  EXPECT_THAT(text_of(report_events), HasSubstr("failed: "));
  EXPECT_THAT(text_of(report_events), HasSubstr("403 Forbidden: no"));
}

TEST_F(KubectlTest, ExplainsAnEviction) {
  answers_[kPodEvents] = items({event_about("u1", "Evicted", "2025-11-25T18:30:00Z")});
  EXPECT_EQ(text_of(report_pod),
            "pod shop/web-0: the API server has no such pod now\n"
            "2025-11-25T18:30:00Z Evicted (2 times): The node was low on resource: memory. \n"
            "  starved_resource: memory\n"
            "  record: `forestall events --since 2025-11-25T18:00:00Z` on node here\n"
            "evicted by Forestall\n");
}

TEST_F(KubectlTest, ExplainsWhyAPodWasNotEvicted) {
  answers_[kPod] = web_pod();
  answers_[kPodEvents] = items({});
  answers_["/api/v1/nodes/here"] = node_with("here", "False");
  std::string text = text_of(report_pod);
  EXPECT_THAT(text, HasSubstr("Running, BestEffort, priority 5, on node here\n"));
  EXPECT_THAT(text, HasSubstr("not evicted by Forestall"));
  EXPECT_THAT(text, HasSubstr("no memory threshold of the node is met\n"));
  answers_["/api/v1/nodes/here"] = node_with("here", "True");
  EXPECT_THAT(text_of(report_pod), HasSubstr("kubectl forestall rank here"));
  answers_["/api/v1/nodes/here"] =
      node_with("here", "True", R"(,"annotations":{"forestall.dev/unguarded":"x"})");
  EXPECT_THAT(text_of(report_pod), HasSubstr("the node is unguarded"));
  answers_["/api/v1/nodes/here"] = R"({"metadata":{"resourceVersion":"7"}})";
  EXPECT_THAT(text_of(report_pod), HasSubstr("the node has no current report"));
  answers_.erase("/api/v1/nodes/here");
  EXPECT_THAT(text_of(report_pod), HasSubstr("not evicted by Forestall"));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("the state of the node is unknown")));
}

TEST_F(KubectlTest, ExplainsWhatProtectsAPod) {
  answers_[kPodEvents] = items({});
  answers_["/api/v1/nodes/here"] = node_with("here", "False");
  answers_[kPod] = R"({"metadata":{"uid":"u1","name":"web-0","namespace":"shop"},"spec":)"
                   R"({"nodeName":"here","priority":2000001000,"containers":[{"name":"c"}]}})";
  EXPECT_THAT(text_of(report_pod), HasSubstr("the agent never evicts it: "));
  options_.json = true;
  EXPECT_THAT(text_of(report_pod), HasSubstr(R"("protection": )"));
  EXPECT_THAT(text_of(report_pod), HasSubstr(R"("evicted": false)"));
}

TEST_F(KubectlTest, AnEventOfAnEarlierPodIsNoEvictionOfThisOne) {
  answers_[kPod] = web_pod();
  answers_[kPodEvents] = items({event_about("u0", "Evicted", "2025-11-25T18:30:00Z")});
  answers_["/api/v1/nodes/here"] = node_with("here", "False");
  const std::string text = text_of(report_pod);
  EXPECT_THAT(text, HasSubstr("Evicted (2 times), an earlier pod of this name: "));
  EXPECT_THAT(text, HasSubstr("not evicted by Forestall"));
}

TEST_F(KubectlTest, RanksThePodsOfANode) {
  options_.object = "here";
  answers_["/api/v1/pods?fieldSelector=spec.nodeName%3Dhere"] =
      R"({"kind":"PodList","items":[)" + web_pod() +
      R"(,{"metadata":{"uid":"u2","name":"db-0","namespace":"shop"},"spec":{"nodeName":"here",)"
      R"("priority":1,"containers":[{"name":"c"}]}}]})";
  answers_["/api/v1/nodes/here/proxy/stats/summary"] =
      R"({"node":{"nodeName":"here"},"pods":[{"podRef":{"name":"web-0","namespace":"shop",)"
      R"("uid":"u1"},"memory":{"workingSetBytes":100}},{"podRef":{"name":"db-0","namespace":)"
      R"("shop","uid":"u2"},"memory":{"workingSetBytes":50}}]})";
  ::testing::internal::CaptureStdout();
  const auto code = print_rank(*api_, options_);
  const std::string text = ::testing::internal::GetCapturedStdout();
  ASSERT_TRUE(code) << code.error().text();
  EXPECT_EQ(*code, cli::kExitOk);
  EXPECT_LT(text.find("shop/db-0"), text.find("shop/web-0")) << text;
  EXPECT_THAT(text, HasSubstr("Evicted first: shop/db-0"));
  // The next line has the kubelet's 100Mi, whatever the node's own threshold is.
  EXPECT_THAT(text, StartsWith("Thresholds and order are the kubelet's defaults"));
  options_.signal = "memory.unknown";
  EXPECT_FALSE(print_rank(*api_, options_));
  options_.signal = "";
  answers_.erase("/api/v1/nodes/here/proxy/stats/summary");
  EXPECT_FALSE(print_rank(*api_, options_));
}

TEST(KubectlOptions, AreThoseOfKubectl) {
  KubectlOptions options;
  EXPECT_FALSE(parse_kubectl_options({"top", "nodes", "-o", "json"}, options));
  EXPECT_EQ(options.command, Kind::top_nodes);
  EXPECT_TRUE(options.json);
  options = {};
  EXPECT_FALSE(parse_kubectl_options(
      {"--context", "c", "why", "pod/web-0", "-n", "shop", "--kubeconfig=f"}, options));
  EXPECT_EQ(options.command, Kind::why);
  EXPECT_EQ(options.object, "web-0");
  EXPECT_EQ(options.pod_namespace, "shop");
  EXPECT_EQ(options.kubeconfig, "f");
  EXPECT_EQ(options.context, "c");
  EXPECT_FALSE(options.json);
  options = {};
  EXPECT_FALSE(parse_kubectl_options({"rank", "here", "--signal", "nodefs.available"}, options));
  EXPECT_EQ(options.command, Kind::rank);
  EXPECT_EQ(options.object, "here");
  options = {};
  EXPECT_FALSE(parse_kubectl_options({"events", "-A"}, options));
  EXPECT_EQ(options.command, Kind::events);
  EXPECT_TRUE(options.all_namespaces);
  const std::vector<std::vector<std::string>> wrong = {
      {}, {"top"}, {"why"}, {"rank"}, {"none"}, {"events", "-o", "yaml"}, {"top", "nodes", "a"}};
  for (const auto& each : wrong) {
    EXPECT_EQ(parse_kubectl_options(each, options), cli::kExitUsage)
        << fmt::format("{}", fmt::join(each, " "));
  }
}

TEST(KubectlPlugin, IsThatOfItsNameOnly) {
  for (std::string name : {"forestall", "/usr/sbin/forestall", "kubectl-forestall/forestall", ""}) {
    char* arguments[] = {name.data(), nullptr};
    EXPECT_EQ(cli::become_kubectl_plugin(1, arguments), std::nullopt) << name;
  }
}

TEST(KubeconfigPath, IsThatOfKubectl) {
  EXPECT_EQ(kubeconfig_path("a", "b:c", "/h").value(), "a");
  EXPECT_EQ(kubeconfig_path("", "b", "/h").value(), "b");
  EXPECT_EQ(kubeconfig_path("", "", "/h").value(), "/h/.kube/config");
  EXPECT_FALSE(kubeconfig_path("", "b:c", "/h"));
  EXPECT_FALSE(kubeconfig_path("", "", ""));
}

}  // namespace
}  // namespace forestall::cluster::kubectl_test
