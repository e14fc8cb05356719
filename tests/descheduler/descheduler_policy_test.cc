// SPDX-License-Identifier: Apache-2.0
// DeschedulerPolicy: what the descheduler's loader refuses, with its messages and the position;
// what it accepts; v1alpha1.
#include "descheduler/descheduler_policy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forestall::descheduler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::vector<std::string> errors_of(const std::string& policy) {
  text::Findings findings;
  const std::vector<rebalance::PriorityClass> classes{{"high", 1000}, {"above", 2'000'000'001}};
  const auto parsed = parse_descheduler_policy("p.yaml", policy, &classes, findings);
  EXPECT_EQ(parsed.has_value(), findings.errors.empty());
  std::vector<std::string> messages;
  for (const text::Finding& each : findings.errors) messages.push_back(each.message);
  return messages;
}

DeschedulerPolicy parsed(const std::string& policy) {
  text::Findings findings;
  const std::vector<rebalance::PriorityClass> classes{{"high", 1000}};
  auto out = parse_descheduler_policy("p.yaml", policy, &classes, findings);
  EXPECT_TRUE(out) << text::format(findings.errors);
  return out ? std::move(*out) : DeschedulerPolicy{};
}

std::string with_config(const std::string& plugin, const std::string& args) {
  return fmt::format("profiles: [{{name: q, pluginConfig: [{{name: {}, args: {}}}]}}]", plugin,
                     args);
}

struct ArgsRow {
  const char* plugin;
  const char* args;
  const char* message;
  const char* scope = "in profile q: ";  // empty if the value cannot be decoded
};

const ArgsRow kRefused[] = {
    {"NodePressure", "{secondsToCrossing: 0}",
     "secondsToCrossing must be a number from 1 to 86400, found 0"},
    {"NodePressure", "{consecutiveReports: 101}",
     "consecutiveReports must be a number from 1 to 100, found 101"},
    {"NodePressure", "{stallPercent: {full: 100.5}}",
     "full must be a percentage from 0 to 100, found 100.5"},
    {"NodePressure", "{stallPercent: {half: 1}}",
     "strict decoding error: unknown field \"stallPercent.half\"", ""},
    {"NodePressure", "{destinationHeadroomPercent: much}",
     "destinationHeadroomPercent: expected a number, found 'much'", ""},
    {"NodePressure", "{evictableNamespaces: {include: [a], exclude: [b]}}",
     "only one of Include/Exclude namespaces can be set"},
    {"LowNodeUtilization", "{}",
     "thresholds config is not valid: no resource threshold is configured"},
    {"LowNodeUtilization", "{thresholds: {cpu: 101}, targetThresholds: {cpu: 100}}",
     "thresholds config is not valid: cpu threshold not in [0, 100] range"},
    {"LowNodeUtilization", "{thresholds: {cpu: 10}, targetThresholds: {memory: 20}}",
     "thresholds and targetThresholds configured different resources"},
    {"LowNodeUtilization", "{thresholds: {cpu: 30}, targetThresholds: {cpu: 20}}",
     "thresholds' cpu percentage is greater than targetThresholds'"},
    {"LowNodeUtilization",
     "{thresholds: {cpu: 1}, targetThresholds: {cpu: 2}, evictableNamespaces: {include: [a]}}",
     "only Exclude namespaces can be set, inclusion is not supported"},
    {"LowNodeUtilization",
     "{thresholds: {cpu: 1}, targetThresholds: {cpu: 2}, metricsUtilization: {source: "
     "KubernetesMetrics, metricsServer: true}}",
     "it is not allowed to set both \"KubernetesMetrics\" source and metricsServer"},
    {"LowNodeUtilization",
     "{thresholds: {cpu: 1}, targetThresholds: {cpu: 2}, metricsUtilization: {source: "
     "KubernetesMetrics, prometheus: {query: q}}}",
     "prometheus configuration is not allowed to set when source is set to "
     "\"KubernetesMetrics\""},
    {"LowNodeUtilization",
     "{thresholds: {cpu: 1}, targetThresholds: {cpu: 2}, metricsUtilization: {source: "
     "Prometheus}}",
     "prometheus query is required when metrics source is set to \"Prometheus\""},
    {"HighNodeUtilization", "{}", "no resource threshold is configured"},
    {"HighNodeUtilization", "{thresholds: {cpu: 120}}", "cpu threshold not in [0, 100] range"},
    {"HighNodeUtilization", "{thresholds: {cpu: 20}, evictionModes: [Other]}",
     "invalid eviction mode Other"},
    {"HighNodeUtilization", "{thresholds: {cpu: 20}, targetThresholds: {cpu: 50}}",
     "strict decoding error: unknown field \"targetThresholds\"", ""},
    {"DefaultEvictor", "{priorityThreshold: {value: 1, name: high}}",
     "priority threshold misconfigured, only one of priorityThreshold fields can be set"},
    {"DefaultEvictor", "{priorityThreshold: {value: 2000000001}}",
     "priority threshold can't be greater than 2000000000", ""},
    {"DefaultEvictor", "{priorityThreshold: {name: above}}",
     "priority threshold can't be greater than 2000000000", ""},
    {"DefaultEvictor", "{evictSystemCriticalPods: true, priorityThreshold: {name: none}}",
     "unable to get priority value from the priority class: priorityclasses.scheduling.k8s.io "
     "\"none\" not found",
     ""},
    {"DefaultEvictor", "{noEvictionPolicy: Other}",
     "noEvictionPolicy accepts only [\"Preferred\" \"Mandatory\"] values"},
    {"DefaultEvictor", "{evictDaemonSetPods: true, podProtections: {extraEnabled: [PodsWithPVC]}}",
     "cannot use Deprecated fields alongside PodProtections.ExtraEnabled or "
     "PodProtections.DefaultDisabled"},
    {"DefaultEvictor", "{podProtections: {extraEnabled: [X]}}",
     "invalid pod protection policy in ExtraEnabled: \"X\". Valid options are: [PodsWithPVC "
     "PodsWithoutPDB PodsWithResourceClaims]"},
    {"DefaultEvictor", "{podProtections: {defaultDisabled: [PodsWithPVC]}}",
     "invalid pod protection policy in DefaultDisabled: \"PodsWithPVC\". Valid options are: "
     "[PodsWithLocalStorage SystemCriticalPods FailedBarePods DaemonSetPods]"},
    {"DefaultEvictor", "{podProtections: {defaultDisabled: [DaemonSetPods, DaemonSetPods]}}",
     "PodProtections.DefaultDisabled contains duplicate entries"},
    {"DefaultEvictor",
     "{podProtections: {config: {PodsWithPVC: {protectedStorageClasses: [{name: a}, {}]}}}}",
     "PodProtections.Config.PodsWithPVC.ProtectedStorageClasses[1] name cannot be empty"},
    {"DefaultEvictor", "{nodefit: true}", "strict decoding error: unknown field \"nodefit\"", ""},
    {"RemoveDuplicates", "{namespaces: {include: [a], exclude: [b]}}",
     "only one of Include/Exclude namespaces can be set"},
    {"RemoveDuplicates", "{labelSelector: {}}",
     "strict decoding error: unknown field \"labelSelector\"", ""},
    {"RemovePodsViolatingInterPodAntiAffinity",
     "{labelSelector: {matchExpressions: [{key: a, operator: Is}]}}",
     "failed to get label selectors from strategy's params: \"Is\" is not a valid label selector "
     "operator"},
    {"PodLifeTime",
     "{states: [Running], labelSelector: {matchExpressions: [{key: a, operator: In}]}}",
     "failed to get label selectors from strategy's params: values: Invalid value: null: for "
     "'in', 'notin' operators, values set can't be empty"},
    {"PodLifeTime",
     "{states: [Running], labelSelector: {matchExpressions: [{key: a, operator: Exists, values: "
     "[b, c]}]}}",
     "failed to get label selectors from strategy's params: values: Invalid value: "
     "[\"b\",\"c\"]: values set must be empty for exists and does not exist"},
    {"PodLifeTime", "{states: [Running], labelSelector: {matchLabels: {a: 'b c'}}}",
     "failed to get label selectors from strategy's params: values[0][a]: Invalid value: "
     "\"b c\": a valid label must be an empty string or consist of alphanumeric characters, '-', "
     "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
     "'my_value',  or '12345', regex used for validation is "
     "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"},
    {"PodLifeTime", "{states: [Running], labelSelector: {matchLabels: {'-a': b}}}",
     "failed to get label selectors from strategy's params: key: Invalid value: \"-a\": name part "
     "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
     "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
     "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"},
    {"RemovePodsViolatingNodeAffinity", "{}", "nodeAffinityType needs to be set"},
    {"RemovePodsViolatingNodeTaints", "{includedTaints: [a], excludedTaints: [b]}",
     "either includedTaints or excludedTaints can be set, but not both"},
    {"RemovePodsHavingTooManyRestarts", "{}", "invalid PodsHavingTooManyRestarts threshold"},
    {"RemovePodsHavingTooManyRestarts", "{podRestartThreshold: 1, states: [Pending]}",
     "states must be one of [CrashLoopBackOff Running]"},
    {"PodLifeTime", "{}",
     "at least one filtering criterion must be specified (maxPodLifeTimeSeconds, states, "
     "conditions, or exitCodes)"},
    {"PodLifeTime", "{exitCodes: [1], ownerKinds: {include: [A], exclude: [B]}}",
     "only one of Include/Exclude ownerKinds can be set"},
    {"PodLifeTime", "{conditions: [{}]}",
     "conditions[0]: at least one of type, status, reason, or minTimeSinceLastTransitionSeconds "
     "must be set"},
    {"PodLifeTime", "{maxPodLifeTimeSeconds: -1, states: [Running]}",
     "maxPodLifeTimeSeconds: expected a whole number from 0, found '-1'", ""},
};

TEST(DeschedulerPolicy, RefusesArgumentsAsTheDeschedulerDoes) {
  for (const ArgsRow& row : kRefused) {
    SCOPED_TRACE(std::string(row.plugin) + " " + row.args);
    EXPECT_THAT(errors_of(with_config(row.plugin, row.args)),
                ElementsAre(std::string(row.scope) + row.message));
  }
}

TEST(DeschedulerPolicy, NamesThePositionOfAMistake) {
  text::Findings findings;
  const std::string policy =
      "profiles:\n- name: q\n  pluginConfig:\n  - name: DefaultEvictor\n    args:\n"
      "      nodeFit: maybe\n";
  EXPECT_FALSE(parse_descheduler_policy("p.yaml", policy, nullptr, findings));
  EXPECT_EQ(text::format(findings.errors),
            "p.yaml:6:16: nodeFit: expected true or false, found 'maybe'");
}

struct PolicyRow {
  const char* text;
  const char* message;
};

TEST(DeschedulerPolicy, RefusesProfilesAndTopLevelValues) {
  const PolicyRow rows[] = {
      {"apiVersion: descheduler/v2", "is registered for version"},
      {"kind: Other", "no kind \"Other\""},
      {"maxNoOfPodsToEvictTotal: -1", "maxNoOfPodsToEvictTotal: expected a whole number"},
      {"nodeSelector: 'a in'", "unable to parse requirement"},
      {"profiles: [{name: q, pluginConfig: [{name: X}]}]",
       "in profile q: plugin X in pluginConfig not registered"},
      {"profiles: [{name: q, plugins: {balance: {enabled: [PodLifeTime]}}}]",
       "profile \"q\" configures balance extension point of non-existing plugins: "
       "map[PodLifeTime:{}]"},
      {"profiles: [{name: q, plugins: {deschedule: {enabled: [PodLifeTime]}}}]",
       "unable to find \"PodLifeTime\" plugin config"},
      {"metricsProviders: [{source: KubernetesMetrics}, {source: KubernetesMetrics}]",
       "metric provider \"KubernetesMetrics\" is already configured, each source can be "
       "configured only once"},
      {"{metricsCollector: {enabled: true}, metricsProviders: [{source: KubernetesMetrics}]}",
       "it is not allowed to combine metrics provider when metrics collector is enabled"},
      {"metricsProviders: [{source: Prometheus}]",
       "prometheus configuration is required when prometheus source is enabled"},
      {"metricsProviders: [{source: Prometheus, prometheus: {}}]",
       "prometheus URL is required when prometheus is enabled"},
      {"metricsProviders: [{source: Prometheus, prometheus: {url: ':bad'}}]",
       "error parsing prometheus URL: parse \":bad\": missing protocol scheme"},
      {"metricsProviders: [{source: Prometheus, prometheus: {url: 'http://p', authToken: {}}}]",
       "prometheus authToken secret is expected to be set when authToken field is"},
      {"metricsProviders: [{source: Prometheus, prometheus: {url: 'http://p', authToken: "
       "{secretReference: {name: a}}}}]",
       "prometheus authToken secret reference does not set both namespace and name"},
  };
  for (const PolicyRow& row : rows) {
    EXPECT_THAT(errors_of(row.text), ElementsAre(HasSubstr(row.message))) << row.text;
  }
}

std::string with_url(const char* url) {
  return fmt::format("metricsProviders: [{{source: Prometheus, prometheus: {{url: '{}'}}}}]", url);
}

TEST(DeschedulerPolicy, ReportsABadUrlInGosWords) {
  const std::pair<const char*, const char*> rows[] = {
      {"http://example.com:-80", "invalid port \":-80\" after host"},
      {"http://example.com:port", "invalid port \":port\" after host"},
      {"http://[::1", "missing ']' in host"},
      {"http://a b/", "invalid character \" \" in host name"},
      {"http://a/%zz", "invalid URL escape \"%zz\""},
      {"%zz", "invalid URL escape \"%zz\""},
      {"http://a%41/", "invalid URL escape \"%41\""},
      {"1http://a", "first path segment in URL cannot contain colon"},
      {"http://a b@c/", "net/url: invalid userinfo"},
  };
  for (const auto& [url, problem] : rows) {
    EXPECT_THAT(
        errors_of(with_url(url)),
        ElementsAre(fmt::format("error parsing prometheus URL: parse \"{}\": {}", url, problem)));
  }
  for (const char* const url : {"http://p", "https://user:secret@p:9090/path?a=b#c",
                                "http://[::1]:80", "http://p:", "mailto:a", "p", "http://%C3%A4"}) {
    EXPECT_THAT(errors_of(with_url(url)), IsEmpty()) << url;
  }
}

TEST(DeschedulerPolicy, ChecksNoValueOfAPluginThatCannotBeDecoded) {
  EXPECT_THAT(errors_of(with_config("PodLifeTime", "{maxPodLifeTimeSeconds: x}")), SizeIs(1));
  EXPECT_THAT(errors_of(with_config("HighNodeUtilization", "{thresholds: {cpu: '1'}}")), SizeIs(1));
  EXPECT_THAT(errors_of("profiles: [{plugins: {balance: {enabled: [5]}}}]"), SizeIs(1));
}

TEST(DeschedulerPolicy, ReportsMistakesInTheOrderOfTheFile) {
  EXPECT_THAT(errors_of("metricsProviders: [{source: Prometheus}]\nmaxNoOfPodsToEvictTotal: -1\n"),
              ElementsAre(HasSubstr("prometheus configuration"), HasSubstr("whole number")));
}

TEST(DeschedulerPolicy, DecodesTheSetsThatItIgnores) {
  for (const char* const plugins :
       {"{sort: 5}", "{presort: {enabled: x}}", "{balance: {disabled: 7}}"}) {
    EXPECT_THAT(errors_of(fmt::format("profiles: [{{plugins: {}}}]", plugins)), SizeIs(1))
        << plugins;
  }
}

TEST(DeschedulerPolicy, ReadsTheFirstDocumentOnly) {
  EXPECT_THAT(errors_of("# a policy\n---\nmaxNoOfPodsToEvictTotal: 1\n---\n"), IsEmpty());
  text::Findings findings;
  const auto policy = parse_descheduler_policy(
      "p.yaml", "maxNoOfPodsToEvictTotal: 1\n---\nmaxNoOfPodsToEvictTotal: x\n", nullptr, findings);
  ASSERT_TRUE(policy) << text::format(findings.errors);
  EXPECT_EQ(policy->policy.evictions_total, 1U);
  ASSERT_THAT(findings.warnings, SizeIs(1));
  EXPECT_EQ(text::to_string(findings.warnings[0].origin), "p.yaml:3:1");
}

TEST(DeschedulerPolicy, ReportsMistakesOfAStrategyOfV1alpha1) {
  EXPECT_THAT(
      errors_of("apiVersion: descheduler/v1alpha1\nstrategies: {PodLifeTime: {enabled: true, "
                "params: {podLifeTime: {states: [x], maxPodLifeTimeSeconds: 1}}}}"),
      ElementsAre(testing::StartsWith("strategy \"PodLifeTime\" param validation failed: states")));
}

TEST(DeschedulerPolicy, IsLenientAboveTheArguments) {
  EXPECT_THAT(errors_of(""), IsEmpty());
  EXPECT_THAT(errors_of("unknown: 1"), IsEmpty());
  EXPECT_THAT(errors_of("profiles: [{unknown: 1, plugins: {preEvictionFilter: {enabled: [X]}, "
                        "sort: {enabled: [Foo]}}}]"),
              IsEmpty());
  EXPECT_THAT(errors_of(with_config("RemovePodsViolatingNodeAffinity", "{nodeAffinityType: [x]}")),
              IsEmpty());
  EXPECT_THAT(errors_of(R"({"kind": "DeschedulerPolicy",
                            "apiVersion": "descheduler/v1alpha2", "profiles": []})"),
              IsEmpty());
}

TEST(DeschedulerPolicy, TheLastValueOfAKeyCounts) {
  const DeschedulerPolicy policy = parsed(
      "maxNoOfPodsToEvictTotal: 1\nmaxNoOfPodsToEvictTotal: 2\nprofiles: [{name: a, name: b, "
      "pluginConfig: [{name: DefaultEvictor, args: {nodeFit: 1, nodeFit: true}}]}]");
  EXPECT_EQ(policy.policy.evictions_total, 2U);
  ASSERT_THAT(policy.policy.profiles, SizeIs(1));
  EXPECT_EQ(policy.policy.profiles[0].name, "b");
  EXPECT_TRUE(policy.policy.profiles[0].evictor.node_fit);
}

TEST(DeschedulerPolicy, ReadsTheTruthValuesOfYaml11) {
  EXPECT_TRUE(parsed(with_config("DefaultEvictor", "{nodeFit: yes}"))
                  .policy.profiles.at(0)
                  .evictor.node_fit);
  EXPECT_FALSE(parsed(with_config("DefaultEvictor", "{nodeFit: Off}"))
                   .policy.profiles.at(0)
                   .evictor.node_fit);
  EXPECT_THAT(errors_of("profiles: [{name: no}]"), SizeIs(1));
  EXPECT_THAT(errors_of("profiles: [{name: 'no'}]"), IsEmpty());
}

TEST(DeschedulerPolicy, KeepsTheNameOfAPriorityClassWithoutAFileOfTheCluster) {
  const std::string text = with_config("DefaultEvictor", "{priorityThreshold: {name: high}}");
  text::Findings findings;
  const auto policy = parse_descheduler_policy("p.yaml", text, nullptr, findings);
  ASSERT_TRUE(policy) << text::format(findings.errors);
  EXPECT_THAT(policy->effective, HasSubstr("\"name\": \"high\""));
  EXPECT_THAT(policy->effective, Not(HasSubstr("2000000000")));
}

TEST(DeschedulerPolicy, CollectsAllMistakes) {
  EXPECT_THAT(errors_of("profiles: [{name: a, pluginConfig: [{name: X}]}, {name: b, pluginConfig: "
                        "[{name: PodLifeTime}]}]"),
              SizeIs(2));
}

TEST(DeschedulerPolicy, FillsInDefaults) {
  const DeschedulerPolicy policy = parsed(
      "profiles: [{name: q, pluginConfig: [{name: DefaultEvictor, args: {priorityThreshold: {name: "
      "high}}}, {name: RemoveFailedPods}, {name: RemovePodsViolatingTopologySpreadConstraint}], "
      "plugins: {deschedule: {enabled: [RemoveFailedPods]}}}]");
  ASSERT_THAT(policy.policy.profiles, SizeIs(1));
  EXPECT_EQ(policy.policy.profiles[0].evictor.priority_threshold, 1000);
  const auto& args =
      std::get<rebalance::PodLifeTimeArgs>(policy.policy.profiles[0].deschedule.at(0).args);
  EXPECT_EQ(args.max_seconds, 3600U);
  EXPECT_TRUE(args.failed_only);
  EXPECT_THAT(policy.effective, HasSubstr("\"value\": 1000"));
  EXPECT_THAT(policy.effective, HasSubstr("\"minPodLifetimeSeconds\": 3600"));
  EXPECT_THAT(policy.effective, HasSubstr("\"topologyBalanceNodeFit\": true"));
  // The effective policy is a policy.
  EXPECT_EQ(parsed(policy.effective).effective, policy.effective);
}

TEST(DeschedulerPolicy, TheFirstConfigurationOfAPluginCounts) {
  const DeschedulerPolicy policy = parsed(
      "profiles: [{name: q, pluginConfig: [{name: DefaultEvictor, args: {nodeFit: true}}, {name: "
      "DefaultEvictor, args: {nodeFit: false}}]}]");
  EXPECT_TRUE(policy.policy.profiles.at(0).evictor.node_fit);
}

TEST(DeschedulerPolicy, APluginThatIsListedTwiceRunsTwice) {
  const DeschedulerPolicy policy = parsed(
      "profiles: [{name: q, pluginConfig: [{name: PodLifeTime, args: {maxPodLifeTimeSeconds: 1}}], "
      "plugins: {deschedule: {enabled: [PodLifeTime, PodLifeTime]}}}]");
  EXPECT_EQ(policy.policy.profiles.at(0).deschedule.size(), 2U);
}

TEST(DeschedulerPolicy, TranslatesV1alpha1) {
  const DeschedulerPolicy policy = parsed(R"(
apiVersion: descheduler/v1alpha1
kind: DeschedulerPolicy
nodeSelector: pool=x
maxNoOfPodsToEvictPerNode: 3
evictLocalStoragePods: true
strategies:
  RemoveDuplicates:
    enabled: true
    params: {nodeFit: true, removeDuplicates: {excludeOwnerKinds: [Job]}}
  PodLifeTime:
    enabled: true
    params:
      thresholdPriorityClassName: high
      podLifeTime: {maxPodLifeTimeSeconds: 60, podStatusPhases: [Pending], states: [Running]}
  RemovePodsViolatingNodeTaints: {enabled: false}
  LowNodeUtilization:
    enabled: true
    params:
      nodeResourceUtilizationThresholds: {thresholds: {cpu: 20}, targetThresholds: {cpu: 50}}
)");
  ASSERT_THAT(policy.policy.profiles, SizeIs(3));
  EXPECT_EQ(policy.policy.evictions_per_node, 3U);
  const rebalance::Profile& duplicates = policy.policy.profiles[0];
  EXPECT_EQ(duplicates.name, "strategy-RemoveDuplicates-profile");
  EXPECT_TRUE(duplicates.evictor.node_fit);
  EXPECT_FALSE(
      duplicates.evictor.protections.contains(rebalance::PodProtection::pods_with_local_storage));
  EXPECT_EQ(duplicates.balance.at(0).name, "RemoveDuplicates");
  const rebalance::Profile& life = policy.policy.profiles[1];
  EXPECT_EQ(life.evictor.priority_threshold, 1000);
  EXPECT_THAT(std::get<rebalance::PodLifeTimeArgs>(life.deschedule.at(0).args).states,
              ElementsAre("Pending", "Running"));
  EXPECT_THAT(policy.effective, HasSubstr("descheduler/v1alpha2"));
  EXPECT_THAT(errors_of("{apiVersion: descheduler/v1alpha1, strategies: {Other: {enabled: true}}}"),
              ElementsAre("unknown strategy name: Other"));
}

TEST(DeschedulerPolicy, V1alpha1HasOurKeysAsWell) {
  const DeschedulerPolicy policy =
      parsed("{apiVersion: descheduler/v1alpha1, compat: fixed, pacing: {memorySeconds: 9}}");
  EXPECT_EQ(policy.policy.corrections, rebalance::Corrections::all());
  EXPECT_EQ(rebalance::pacing_of(policy.policy).memory_seconds, 9U);
}

TEST(DeschedulerPolicy, PacingIsCheckedWithItsPlace) {
  const auto place = [](const std::string& text) {
    text::Findings findings;
    (void)parse_descheduler_policy("p.yaml", text, nullptr, findings);
    return findings.errors.empty() ? "none" : text::format(findings.errors);
  };
  EXPECT_THAT(place("pacing:\n  movesPerWorkload: -1"), HasSubstr("p.yaml:2:21: pacing."));
  EXPECT_THAT(place("pacing:\n  perWorkload: 1"),
              HasSubstr("p.yaml:2:3: strict decoding error: unknown field \"pacing.perWorkload\""));
  EXPECT_THAT(place("pacing: {memorySeconds: 2592001}"), HasSubstr("must be at most 2592000"));
  EXPECT_THAT(place("pacing: {memorySeconds: 60, secondsBetweenMoves: 61}"),
              HasSubstr("must be at most memorySeconds (60), found 61"));
  EXPECT_THAT(place("pacing: {memorySeconds: 0, movesPerWorkload: 1}"),
              HasSubstr("p.yaml:1:46: movesPerWorkload needs memorySeconds above 0"));
  EXPECT_THAT(parsed("pacing: {movesPerWorkload: 2}").effective,
              HasSubstr("\"memorySeconds\": 3600"));
  EXPECT_EQ(rebalance::pacing_of(parsed("{}").policy).memory_seconds, 0U);
}

TEST(DeschedulerPolicy, ReserveIsOffUnlessItIsSet) {
  EXPECT_FALSE(parsed("{}").policy.placeholder);
  EXPECT_FALSE(parsed("reserve: none").policy.placeholder);
  EXPECT_EQ(parsed("reserve: placeholder").policy.placeholder, rebalance::PlaceholderSettings{});
  const DeschedulerPolicy policy = parsed(
      "{apiVersion: descheduler/v1alpha1, reserve: placeholder, placeholder: {namespace: rooms,"
      " priorityClassName: low, image: mirror/pause:1, seconds: 60}}");
  EXPECT_EQ(policy.policy.placeholder,
            (rebalance::PlaceholderSettings{"rooms", "low", "mirror/pause:1", 60}));
  EXPECT_THAT(policy.effective, HasSubstr("\"reserve\": \"placeholder\""));
  EXPECT_THAT(policy.effective, HasSubstr("\"priorityClassName\": \"low\""));
}

TEST(DeschedulerPolicy, ReserveIsCheckedWithItsPlace) {
  const auto place = [](const std::string& text) {
    text::Findings findings;
    (void)parse_descheduler_policy("p.yaml", text, nullptr, findings);
    return findings.errors.empty() ? "none" : text::format(findings.errors);
  };
  EXPECT_THAT(place("reserve: always"),
              HasSubstr("p.yaml:1:10: reserve must be 'none' or 'placeholder', found 'always'"));
  EXPECT_THAT(place("placeholder: {seconds: 60}"),
              HasSubstr("p.yaml:1:14: placeholder needs reserve: placeholder"));
  const auto with = [&](const std::string& settings) {
    return place("reserve: placeholder\nplaceholder: {" + settings + "}");
  };
  EXPECT_THAT(with("second: 60"), HasSubstr("unknown field \"placeholder.second\""));
  EXPECT_THAT(with("seconds: 9"), HasSubstr("p.yaml:2:24: seconds must be between 10 and 600"));
  EXPECT_THAT(with("seconds: 601"), HasSubstr("found 601"));
  EXPECT_THAT(with("seconds: -1"), HasSubstr("placeholder.seconds"));
  EXPECT_THAT(with("namespace: a/../b"), HasSubstr("namespace must be a name"));
  EXPECT_THAT(with("namespace: ''"), HasSubstr("namespace must be a name"));
  EXPECT_THAT(with("image: ''"), HasSubstr("image must be the name of an image"));
  EXPECT_THAT(with("priorityClassName: ''"), HasSubstr("priorityClassName must be"));
}

// What another file has once, a policy may name again.
TEST(DeschedulerPolicy, AliasesAndMergeKeysAreExpanded) {
  const DeschedulerPolicy policy = parsed(R"(
profiles:
- name: a
  pluginConfig:
  - name: LowNodeUtilization
    args: &low
      thresholds: &limits {cpu: 20}
      targetThresholds: {<<: *limits, cpu: 50}
  plugins: {balance: &on {enabled: [LowNodeUtilization]}}
- name: b
  pluginConfig: [{name: LowNodeUtilization, args: {<<: *low, numberOfNodes: 4}}]
  plugins: {balance: *on}
)");
  ASSERT_THAT(policy.policy.profiles, SizeIs(2));
  const auto& low =
      std::get<rebalance::LowNodeUtilizationArgs>(policy.policy.profiles[1].balance.at(0).args);
  EXPECT_EQ(low.target_thresholds.at("cpu"), 50);
  EXPECT_EQ(low.number_of_nodes, 4);
}

// The descheduler refuses them: see kRefused.
TEST(DeschedulerPolicy, FixedMayIncludeNamespaces) {
  const auto fixed = [](const std::string& namespaces) {
    return "{compat: fixed, profiles: [{name: p, pluginConfig: [{name: HighNodeUtilization, args: "
           "{thresholds: {cpu: 20}, evictableNamespaces: " +
           namespaces + "}}], plugins: {balance: {enabled: [HighNodeUtilization]}}}]}";
  };
  const DeschedulerPolicy policy = parsed(fixed("{include: [a, b]}"));
  const auto& high =
      std::get<rebalance::HighNodeUtilizationArgs>(policy.policy.profiles[0].balance.at(0).args);
  EXPECT_THAT(high.namespaces.include, ElementsAre("a", "b"));
  EXPECT_FALSE(high.namespaces.accepts("c"));
  EXPECT_THAT(errors_of(fixed("{include: [a], exclude: [b]}")),
              ElementsAre("in profile p: only one of Include/Exclude namespaces can be set"));
}

TEST(DeschedulerPolicy, FixedMaySelectTheNodesOfAProfile) {
  const auto text = [](const std::string& compat, const std::string& selector) {
    return compat + "profiles:\n- name: p\n  nodeSelector: '" + selector + "'\n";
  };
  const DeschedulerPolicy policy = parsed(text("compat: fixed\n", "pool in (a, b)"));
  ASSERT_TRUE(policy.policy.profiles.at(0).node_selector);
  EXPECT_THAT(policy.effective, testing::HasSubstr(R"-("nodeSelector": "pool in (a, b)")-"));
  text::Findings refused;
  EXPECT_FALSE(
      parse_descheduler_policy("p.yaml", text("compat: fixed\n", "pool in"), nullptr, refused));
  EXPECT_THAT(text::format(refused.errors),
              testing::StartsWith("p.yaml:4:17: in profile p: unable to parse requirement"));
  for (const char* const compat : {"", "compat: upstream\n"}) {
    text::Findings findings;
    const auto upstream =
        parse_descheduler_policy("p.yaml", text(compat, "pool=a"), nullptr, findings);
    ASSERT_TRUE(upstream) << text::format(findings.errors);
    EXPECT_FALSE(upstream->policy.profiles.at(0).node_selector);
    ASSERT_THAT(findings.warnings, SizeIs(1));
    EXPECT_THAT(findings.warnings[0].message, HasSubstr("nodeSelector is ignored"));
  }
}

TEST(DeschedulerPolicy, TranslatesOnlyTheKeysThatAStrategyOfV1alpha1Has) {
  const DeschedulerPolicy policy = parsed(R"(
apiVersion: descheduler/v1alpha1
strategies:
  HighNodeUtilization:
    enabled: true
    params:
      namespaces: {exclude: [a], other: 1}
      nodeResourceUtilizationThresholds: {thresholds: {cpu: 20}, targetThresholds: {cpu: 50}}
  PodLifeTime:
    enabled: true
    params: {nodeFit: true, podLifeTime: {maxPodLifeTimeSeconds: 60, unknown: 1}}
)");
  ASSERT_THAT(policy.policy.profiles, SizeIs(2));
  const auto& high =
      std::get<rebalance::HighNodeUtilizationArgs>(policy.policy.profiles[0].balance.at(0).args);
  EXPECT_THAT(high.namespaces.exclude, ElementsAre("a"));
  // PodLifeTime of v1alpha1 had no nodeFit.
  EXPECT_FALSE(policy.policy.profiles[1].evictor.node_fit);
  EXPECT_THAT(
      errors_of("{apiVersion: descheduler/v1alpha1, strategies: {RemoveDuplicates: {enabled: "
                "true, params: {thresholdPriority: 1, thresholdPriorityClassName: high}}}}"),
      ElementsAre("priority threshold misconfigured for plugin RemoveDuplicates"));
}

}  // namespace
}  // namespace forestall::descheduler
