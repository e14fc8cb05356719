// SPDX-License-Identifier: Apache-2.0
// nodeFit: the predicates of the descheduler's pkg/descheduler/node NodeFit(), in their order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace forestall::rebalance::test {
namespace {

struct FitRow {
  const char* rule;
  NodeText node;
  PodText pod;
  const char* reason;  // empty: the pod fits
  std::vector<std::string> others = {};
};

const char* const kNoSchedule = R"({"key": "k", "value": "v", "effect": "NoSchedule"})";
const char* const kPrefer = R"({"key": "k", "value": "v", "effect": "PreferNoSchedule"})";
const char* const kNoExecute = R"({"key": "k", "effect": "NoExecute"})";
const char* const kWrongNode = "pod node selector does not match the node label";
const char* const kTainted = "pod does not tolerate taints on the node";
const char* const kRepelled = "pod matches inter-pod anti-affinity rule of other pod on node";

std::string affinity(const std::string& terms) {
  return R"(, "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
             {"nodeSelectorTerms": [)" +
         terms + "]}}}";
}

std::string expression(const std::string& text) {
  return affinity(R"({"matchExpressions": [)" + text + "]}");
}

std::string tolerations(const std::string& items) {
  return R"(, "tolerations": [)" + items + "]";
}

std::string anti_affinity(const std::string& rest) {
  return R"(, "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
             [{"topologyKey": "zone")" +
         rest + "}]}}";
}

void expect_fit(const FitRow& row, const std::string& top = "") {
  SCOPED_TRACE(row.rule);
  std::vector<std::string> objects{node_text("here"), node_text("there", row.node),
                                   pod_text("x", "here", row.pod)};
  const World world = plan_for(policy_text("PodLifeTime", "{maxPodLifeTimeSeconds: 0}", "{}", top),
                               objects + row.others);
  ASSERT_NE(world.find("x"), nullptr);
  for (const NodeFit& fit : world.find("x")->fits) {
    if (world.snapshot.nodes[fit.node].name != "there") continue;
    EXPECT_EQ(fit.reason, row.reason);
  }
}

TEST(NodeFit, ChecksCordonLabelsAndTaints) {
  const std::vector<FitRow> rows{
      {"an empty node", {}, {}, ""},
      {"1: cordoned, before all others",
       {.taints = kNoSchedule, .cordoned = true},
       {},
       "node is not schedulable"},
      {"2: nodeSelector", {}, {.spec = R"(, "nodeSelector": {"a": "1"})"}, kWrongNode},
      {"2: nodeSelector matches",
       {.labels = R"("a": "1")"},
       {.spec = R"(, "nodeSelector": {"a": "1"})"},
       ""},
      {"2: In",
       {.labels = R"("a": "1")"},
       {.spec = expression(R"({"key": "a", "operator": "In", "values": ["2", "1"]})")},
       ""},
      {"2: NotIn holds for a missing label",
       {},
       {.spec = expression(R"({"key": "a", "operator": "NotIn", "values": ["1"]})")},
       ""},
      {"2: Gt compares numbers",
       {.labels = R"("a": "10")"},
       {.spec = expression(R"({"key": "a", "operator": "Gt", "values": ["9"]})")},
       ""},
      {"2: Lt",
       {.labels = R"("a": "10")"},
       {.spec = expression(R"({"key": "a", "operator": "Lt", "values": ["9"]})")},
       kWrongNode},
      {"2: DoesNotExist",
       {.labels = R"("a": "10")"},
       {.spec = expression(R"({"key": "a", "operator": "DoesNotExist"})")},
       kWrongNode},
      {"2: one of several terms",
       {.labels = R"("a": "1")"},
       {.spec = affinity(R"({"matchExpressions": [{"key": "b", "operator": "Exists"}]},
                            {"matchExpressions": [{"key": "a", "operator": "Exists"}]})")},
       ""},
      {"2: an empty term matches nothing", {}, {.spec = affinity("{}")}, kWrongNode},
      {"2: no term matches nothing", {}, {.spec = affinity("")}, kWrongNode},
      {"2: matchFields",
       {},
       {.spec = affinity(R"({"matchFields": [{"key": "metadata.name", "operator": "In",
                             "values": ["there"]}]})")},
       ""},
      {"3: NoSchedule", {.taints = kNoSchedule}, {}, kTainted},
      {"3: NoExecute", {.taints = kNoExecute}, {}, kTainted},
      {"3: PreferNoSchedule is ignored", {.taints = kPrefer}, {}, ""},
      {"3: tolerated by value",
       {.taints = kNoSchedule},
       {.spec = tolerations(R"({"key": "k", "operator": "Equal", "value": "v"})")},
       ""},
      {"3: another value",
       {.taints = kNoSchedule},
       {.spec = tolerations(R"({"key": "k", "value": "w"})")},
       kTainted},
      {"3: another effect",
       {.taints = kNoSchedule},
       {.spec = tolerations(R"({"key": "k", "operator": "Exists", "effect": "NoExecute"})")},
       kTainted},
      {"3: a wildcard",
       {.taints = kNoSchedule},
       {.spec = tolerations(R"({"operator": "Exists"})")},
       ""},
  };
  for (const FitRow& row : rows) expect_fit(row);
}

// Kubernetes 1.35: Gt and Lt compare the taint's value with that of the toleration.
TEST(NodeFit, TolerationsCompareNumbers) {
  const auto taint = [](const std::string& value) {
    return R"({"key": "k", "value": ")" + value + R"(", "effect": "NoSchedule"})";
  };
  const auto compare = [](const std::string& op, const std::string& value) {
    return tolerations(R"({"key": "k", "operator": ")" + op + R"(", "value": ")" + value + R"("})");
  };
  const std::string ten = taint("10");
  const std::vector<FitRow> rows{
      {"above", {.taints = ten}, {.spec = compare("Gt", "5")}, ""},
      {"not above", {.taints = ten}, {.spec = compare("Gt", "10")}, kTainted},
      {"below", {.taints = ten}, {.spec = compare("Lt", "15")}, ""},
      {"not below", {.taints = ten}, {.spec = compare("Lt", "10")}, kTainted},
      {"a negative number", {.taints = taint("0")}, {.spec = compare("Gt", "-5")}, ""},
      {"a zero in front", {.taints = ten}, {.spec = compare("Gt", "05")}, kTainted},
      {"a zero in front", {.taints = taint("010")}, {.spec = compare("Gt", "5")}, kTainted},
      {"no number", {.taints = taint("many")}, {.spec = compare("Gt", "5")}, kTainted},
      {"an unknown operator", {.taints = ten}, {.spec = compare("Ge", "5")}, kTainted},
  };
  for (const FitRow& row : rows) expect_fit(row);
}

TEST(NodeFit, ChecksAntiAffinityOfThePodOnThatNodeOnly) {
  const PodText web{.metadata = R"(, "labels": {"app": "web"})"};
  const NodeText zoned{.labels = R"("zone": "a")"};
  const std::string selects = R"(, "labelSelector": {"matchLabels": {"app": "web"}})";
  const auto other = [&](PodText text) {
    text.metadata = web.metadata;
    return std::vector<std::string>{pod_text("other", "there", text)};
  };
  const std::vector<FitRow> rows{
      {"4: a matching pod", zoned, {.spec = anti_affinity(selects)}, kRepelled, other({})},
      {"4: the node has not the topology key", {}, {.spec = anti_affinity(selects)}, "", other({})},
      {"4: a finished pod",
       zoned,
       {.spec = anti_affinity(selects)},
       "",
       other({.phase = "Succeeded"})},
      {"4: another namespace", zoned, {.spec = anti_affinity(selects)}, "", other({.space = "b"})},
      {"4: a listed namespace",
       zoned,
       {.spec = anti_affinity(selects + R"(, "namespaces": ["b"])")},
       kRepelled,
       other({.space = "b"})},
      {"4: no selector selects nothing", zoned, {.spec = anti_affinity("")}, "", other({})},
      {"4: an empty selector selects all",
       zoned,
       {.spec = anti_affinity(R"(, "labelSelector": {})")},
       kRepelled,
       other({})},
  };
  for (const FitRow& row : rows) expect_fit(row);
}

// The same rows as upstream: every pod fits.
void expect_fit_if_fixed(FitRow row) {
  expect_fit(row, "compat: fixed, ");
  row.reason = "";
  expect_fit(row);
}

constexpr const char* kWeb = R"(, "labels": {"app": "web"})";
constexpr const char* kSelectsWeb = R"("labelSelector": {"matchLabels": {"app": "web"}})";

std::string pod_affinity(const std::string& terms) {
  return R"(, "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [)" +
         terms + "]}}";
}

// scheduler/framework/plugins/interpodaffinity/filtering.go satisfyPodAffinity().
TEST(NodeFit, FixedRespectsPodAffinity) {
  const char* const kNone = "node(s) didn't match pod affinity rules";
  const NodeText zoned{.labels = R"("zone": "a")"};
  const std::string near_web = R"({"topologyKey": "zone", )" + std::string(kSelectsWeb) + "}";
  const auto web = [](PodText text) {
    text.metadata = kWeb;
    return std::vector<std::string>{pod_text("web", "there", text)};
  };
  const std::vector<FitRow> rows{
      {"no such pod", zoned, {.spec = pod_affinity(near_web)}, kNone},
      {"one in the domain", zoned, {.spec = pod_affinity(near_web)}, "", web({})},
      {"the node has not the topology key", {}, {.spec = pod_affinity(near_web)}, kNone, web({})},
      {"a pod that has ended",
       zoned,
       {.spec = pod_affinity(near_web)},
       kNone,
       web({.phase = "Succeeded"})},
      {"another namespace", zoned, {.spec = pod_affinity(near_web)}, kNone, web({.space = "b"})},
      {"a namespace that the selector matches",
       zoned,
       {.spec = pod_affinity(R"({"topologyKey": "zone", "namespaceSelector": {}, )" +
                             std::string(kSelectsWeb) + "}")},
       "",
       web({.space = "b"}) +
           std::vector<std::string>{R"({"kind": "Namespace", "metadata": {"name": "b"}})"}},
      {"the first of a series", zoned, {.metadata = kWeb, .spec = pod_affinity(near_web)}, ""},
      {"all terms by one pod",
       zoned,
       {.spec = pod_affinity(near_web + R"(, {"topologyKey": "zone", "labelSelector": )"
                                        R"({"matchLabels": {"tier": "x"}}})")},
       kNone,
       web({})},
      {"no selector selects nothing",
       zoned,
       {.spec = pod_affinity(R"({"topologyKey": "zone"})")},
       kNone,
       web({})},
  };
  for (const FitRow& row : rows) expect_fit_if_fixed(row);
}

// scheduler/framework/plugins/podtopologyspread/filtering.go Filter().
TEST(NodeFit, FixedRespectsTopologySpread) {
  const char* const kSkewed = "node(s) didn't match pod topology spread constraints";
  const NodeText zoned{.labels = R"("zone": "a")"};
  const auto spread = [](const std::string& more, const std::string& when = "DoNotSchedule") {
    return PodText{.metadata = kWeb,
                   .spec = R"(, "topologySpreadConstraints": [{"topologyKey": "zone", )" +
                           std::string(kSelectsWeb) + R"(, "whenUnsatisfiable": ")" + when +
                           R"(", "maxSkew": )" + more + "}]"};
  };
  const std::string empty_zone = node_text("far", {.labels = R"("zone": "b")"});
  const auto webs = [&](int count, const std::string& zone_b = "", PodText text = {}) {
    text.metadata = kWeb;
    auto all = pods_text("web", count, "there", text);
    if (!zone_b.empty()) all.push_back(zone_b);
    return all;
  };
  const std::vector<FitRow> rows{
      {"one domain is never skewed", zoned, spread("1"), "", webs(3)},
      {"one and itself against none", zoned, spread("1"), kSkewed, webs(1, empty_zone)},
      {"within the skew", zoned, spread("2"), "", webs(1, empty_zone)},
      {"soft", zoned, spread("1", "ScheduleAnyway"), "", webs(3, empty_zone)},
      {"the node has not the topology key", {}, spread("1"), kSkewed},
      {"too few domains: the least is 0", zoned, spread(R"(1, "minDomains": 2)"), kSkewed, webs(1)},
      {"enough domains", zoned, spread(R"(1, "minDomains": 1)"), "", webs(1)},
      {"another namespace", zoned, spread("1"), "", webs(1, empty_zone, {.space = "b"})},
      {"labels of matchLabelKeys", zoned, spread(R"(1, "matchLabelKeys": ["app"])"), kSkewed,
       webs(1, empty_zone)},
      {"a tainted domain counts by default", zoned, spread("1"), kSkewed,
       webs(1, node_text("far", {.labels = R"("zone": "b")", .taints = kNoSchedule}))},
      {"a tainted domain does not count if taints are honored", zoned,
       spread(R"(1, "nodeTaintsPolicy": "Honor")"), "",
       webs(1, node_text("far", {.labels = R"("zone": "b")", .taints = kNoSchedule}))},
  };
  for (const FitRow& row : rows) expect_fit_if_fixed(row);
}

// scheduler/framework/plugins/nodeports Fits(), framework/types.go HostPortInfo.
TEST(NodeFit, FixedRespectsHostPorts) {
  const char* const kTaken = "node(s) didn't have free ports for the requested pod ports";
  const auto port = [](const std::string& text) {
    return PodText{.spec = R"(, "initContainers": [{"name": "s", "restartPolicy": "Always", )"
                           R"("ports": [{)" +
                           text + "}]}]"};
  };
  const auto other = [&](const std::string& text) {
    return std::vector<std::string>{pod_text("other", "there", port(text))};
  };
  const std::string any = R"("hostPort": 80)";
  const std::vector<FitRow> rows{
      {"the same port", {}, port(any), kTaken, other(any)},
      {"another port", {}, port(any), "", other(R"("hostPort": 81)")},
      {"another protocol", {}, port(any), "", other(R"("hostPort": 80, "protocol": "UDP")")},
      {"one address and all",
       {},
       port(any),
       kTaken,
       other(R"("hostPort": 80, "hostIP": "1.1.1.1")")},
      {"two addresses",
       {},
       port(R"("hostPort": 80, "hostIP": "1.1.1.2")"),
       "",
       other(R"("hostPort": 80, "hostIP": "1.1.1.1")")},
      {"a container port", {}, port(R"("containerPort": 80)"), "", other(any)},
  };
  for (const FitRow& row : rows) expect_fit_if_fixed(row);
}

// scheduler/framework/plugins/volumebinding and volumezone.
TEST(NodeFit, FixedRespectsTheNodesOfVolumes) {
  const char* const kElsewhere = "node(s) had volume node affinity conflict";
  const PodText claims{.spec = R"(, "volumes": [{"persistentVolumeClaim": {"claimName": "c"}}])"};
  const NodeText zoned{.labels = R"("topology.kubernetes.io/zone": "a", "disk": "ssd")"};
  const auto bound = [](const std::string& metadata, const std::string& spec) {
    return std::vector<std::string>{
        R"({"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "default"},
            "spec": {"volumeName": "v"}})",
        R"({"kind": "PersistentVolume", "metadata": {"name": "v")" + metadata + "}, \"spec\": {" +
            spec + "}}"};
  };
  const auto on = [](const std::string& disk) {
    return R"("nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key":
        "disk", "operator": "In", "values": [")" +
           disk + R"("]}]}]}})";
  };
  const auto label = [](const std::string& key, const std::string& zones) {
    return R"(, "labels": {")" + key + R"(": ")" + zones + "\"}";
  };
  const std::string zone = "topology.kubernetes.io/zone";
  const std::string beta = "failure-domain.beta.kubernetes.io/zone";
  const std::vector<FitRow> rows{
      {"reachable", zoned, claims, "", bound("", on("ssd"))},
      {"not reachable", zoned, claims, kElsewhere, bound("", on("hdd"))},
      {"its zone", zoned, claims, "", bound(label(zone, "a"), "")},
      {"one of its zones", zoned, claims, "", bound(label(zone, "b__a"), "")},
      {"another zone", zoned, claims, kElsewhere, bound(label(zone, "b"), "")},
      {"another zone, old name", zoned, claims, kElsewhere, bound(label(beta, "b"), "")},
      {"a node without zones", {}, claims, "", bound(label(zone, "b"), "")},
      {"no such volume", zoned, claims, "", {bound("", "")[0]}},
  };
  for (const FitRow& row : rows) expect_fit_if_fixed(row);
}

TEST(NodeFit, ChecksResourcesInThousandths) {
  const std::vector<FitRow> rows{
      {"5: exactly the room", {.cpu = "100m"}, {.cpu = "100m"}, ""},
      {"5: cpu", {.cpu = "100m"}, {.cpu = "101m"}, "insufficient cpu"},
      {"5: memory", {.memory = "1Ki"}, {.memory = "1025"}, "insufficient memory"},
      {"5: taken by a live pod",
       {.cpu = "150m"},
       {},
       "insufficient cpu",
       {pod_text("o", "there", {.cpu = "51m"})}},
      {"5: a finished pod takes nothing",
       {.cpu = "150m"},
       {},
       "",
       {pod_text("o", "there", {.cpu = "51m", .phase = "Failed"})}},
      {"5: number of pods",
       {.pods = "1"},
       {},
       "insufficient pods",
       {pod_text("o", "there", {.cpu = "0"})}},
      {"5: an extended resource that the node has not",
       {},
       {.spec = R"(, "overhead": {"x.com/gpu": "1"})"},
       "insufficient x.com/gpu"},
      {"5: the overhead counts",
       {.cpu = "149m"},
       {.spec = R"(, "overhead": {"cpu": "50m"})"},
       "insufficient cpu"},
  };
  for (const FitRow& row : rows) expect_fit(row);
}

TEST(NodeFit, DoesNotCheckResourcesOnThePodsOwnNode) {
  const World world = plan_for(
      policy_text("PodLifeTime", "{maxPodLifeTimeSeconds: 0}"),
      {node_text("here", {.cpu = "1m", .pods = "0"}), node_text("there"), pod_text("x", "here")});
  ASSERT_NE(world.find("x"), nullptr);
  EXPECT_EQ(world.find("x")->fits.at(0).reason, "");
}

}  // namespace
}  // namespace forestall::rebalance::test
