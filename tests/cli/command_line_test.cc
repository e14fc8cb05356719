// SPDX-License-Identifier: Apache-2.0
// The command line: exit codes, help, and errors with instructions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "forestall/internal/plan.pb.h"
#include "forestall/v1/config_report.pb.h"
#include "forestall/v1/doctor.pb.h"
#include "forestall/v1/report.pb.h"
#include "messages/json.h"
#include "model/feature.h"
#include "picture/incident.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::test {
namespace {

using testing::HasSubstr;

TEST(CommandLine, VersionAndHelpSucceed) {
  EXPECT_EQ(run_forestall({"--version"}).output, "forestall " FORESTALL_VERSION "\n");
  const Ran help = run_forestall({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* command :
       {"agent", "demo", "doctor", "signals", "rank", "score", "check-config", "plan"}) {
    EXPECT_THAT(help.output, HasSubstr(command));
    EXPECT_EQ(run_forestall({command, "--help"}).exit_code, 0) << command;
  }
}

TEST(CommandLine, HelpAndVersionAreSubcommandsToo) {
  EXPECT_EQ(run_forestall({"version"}).output, run_forestall({"--version"}).output);
  for (const char* output : {"-o", "--output"}) {
    EXPECT_EQ(run_forestall({"version", output, "json"}).output,
              "{\"version\": \"" FORESTALL_VERSION "\"}\n");
  }
  EXPECT_EQ(run_forestall({"help"}).output, run_forestall({"--help"}).output);
  const Ran rank = run_forestall({"help", "rank"});
  EXPECT_EQ(rank.exit_code, 0);
  EXPECT_EQ(rank.output, run_forestall({"rank", "--help"}).output);
  EXPECT_THAT(run_forestall({"--help"}).output, HasSubstr("Show the help of a subcommand"));
  EXPECT_THAT(run_forestall({"help", "rnak"}).errors, HasSubstr("did you mean 'rank'?"));
  EXPECT_EQ(run_forestall({"version", "2"}).exit_code, 2);
  EXPECT_EQ(run_forestall({"help", "rank", "score"}).exit_code, 2);
}

TEST(CommandLine, UnknownWordsAreRefused) {
  EXPECT_EQ(run_forestall({"evict"}).exit_code, 2);
  EXPECT_EQ(run_forestall({"doctor", "--frobnicate"}).exit_code, 2);
  const Ran format = run_forestall({"doctor", "--output", "xml"});
  EXPECT_EQ(format.exit_code, 2);
  EXPECT_THAT(format.errors, HasSubstr("xml"));
}

TEST(CommandLine, UnknownSubcommandIsRefusedWithTheSimilarOne) {
  const Ran ran = run_forestall({"rnak"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_EQ(ran.errors,
            "forestall: unknown subcommand 'rnak'; did you mean 'rank'? `forestall --help` lists "
            "all\n");
}

TEST(CommandLine, UnknownOptionIsRefusedWithTheSimilarOne) {
  const auto errors = [](const std::vector<std::string>& arguments) {
    const Ran ran = run_forestall(arguments);
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_EQ(ran.output, "");
    return ran.errors;
  };
  EXPECT_EQ(errors({"rank", "--sgnal", "memory.available"}),
            "forestall rank: unknown option '--sgnal'; did you mean '--signal'?\n"
            "See `forestall rank --help`.\n");
  EXPECT_EQ(errors({"rank", "--xyzzy=1"}),
            "forestall rank: unknown option '--xyzzy'\nSee `forestall rank --help`.\n");
  EXPECT_EQ(errors({"version", "2"}),
            "forestall version: unexpected argument '2'\nSee `forestall version --help`.\n");
  EXPECT_EQ(errors({"--config", "a.yaml"}),
            "forestall: unknown option '--config' before the subcommand; write forestall agent "
            "--config\nSee `forestall --help`.\n");
  EXPECT_EQ(errors({"-o", "json", "rank"}),
            "forestall rank: unknown option '-o' before the subcommand; write forestall rank -o\n"
            "See `forestall rank --help`.\n");
  EXPECT_EQ(errors({"replay"}),
            "forestall replay: file is required\nSee `forestall replay --help`.\n");
}

TEST(CommandLine, UnknownChoiceIsRefusedWithTheListOfChoices) {
  const Ran ran = run_forestall({"rank", "-o", "yaml"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("unknown value 'yaml'; use one of: text, json"));
  const Ran log = run_forestall({"agent", "--log-format", "xml"});
  EXPECT_EQ(log.exit_code, 2);
  EXPECT_THAT(log.errors, HasSubstr("unknown value 'xml'; use one of: text, logfmt, json"));
}

TEST(CommandLine, NumbersOutsideTheRangeAreRefused) {
  const Ran count = run_forestall({"trace", "--count", "0"});
  EXPECT_EQ(count.exit_code, 2);
  EXPECT_THAT(count.errors, HasSubstr("invalid number '0'; use a whole number from 1"));
  const Ran limit = run_forestall({"score", "-n", "-1"});
  EXPECT_EQ(limit.exit_code, 2);
  EXPECT_THAT(limit.errors, HasSubstr("invalid number '-1'; use a whole number from 0"));
}

TEST(CommandLine, ConfigOfCommentsOnlyIsAcceptedAndAnEmptyFileIsRefused) {
  const TempTree tree{{"comments.yaml", "# memory.available: 100Mi\n\n"}, {"empty.yaml", "\n"}};
  const Ran comments = run_forestall({"check-config", "--config", tree / "comments.yaml"});
  EXPECT_EQ(comments.exit_code, 0) << comments.errors;
  EXPECT_EQ(run_forestall({"check-config", "--config", tree / "empty.yaml"}).exit_code, 2);
}

TEST(CommandLine, CheckConfigShowsWhatTheAgentServesAndRecords) {
  const TempTree tree{{"all.yaml",
                       "pods: {enabled: false}\nranking: kernel\nguard: on\n"
                       "metricsAddress: 127.0.0.1:9464\napiSocket: /run/x.sock\n"
                       "recording: {directory: /var/lib/x, maxSize: 16Mi}\n"}};
  const Ran all = run_forestall({"check-config", "--config", tree / "all.yaml"});
  EXPECT_THAT(all.output,
              HasSubstr("  pods are no candidates; ranking kernel; guard in the kernel on, "
                        "for 2m0s without the agent\n"
                        "  metrics at 127.0.0.1:9464; gRPC socket /run/x.sock; recording in "
                        "/var/lib/x, at most 16Mi\n"))
      << all.errors;
  const Ran none = run_forestall({"check-config"});
  EXPECT_THAT(none.output,
              HasSubstr("  pods are candidates; ranking kubelet; guard in the kernel off\n"
                        "  metrics off; gRPC socket in the run directory; recording off\n"))
      << none.errors;
}

TEST(CommandLine, CheckConfigShowsTheBackstopOfThisHost) {
  const TempTree tree{{"default.yaml", "pods: {enabled: true}\n"},
                      {"own.yaml", "untilOom: {available: 64Mi}\n"},
                      {"off.yaml", "untilOom: {available: 0%}\n"},
                      {"compat.yaml", "compat: {kubeletVersion: \"1.30\"}\n"}};
  const auto check = [&](const char* config) {
    const Ran ran = run_forestall({"check-config", "--config", tree / config});
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    return ran.output;
  };
  const std::regex backstop(R"(memory\.untilOom +- +\d+Mi +hard +- +- +backstop)");
  EXPECT_TRUE(std::regex_search(check("default.yaml"), backstop)) << check("default.yaml");
  EXPECT_THAT(check("own.yaml"), testing::ContainsRegex("memory.untilOom +- +64Mi .*own.yaml"));
  for (const char* config : {"off.yaml", "compat.yaml"}) {
    EXPECT_THAT(check(config), testing::Not(HasSubstr("memory.untilOom"))) << config;
  }
}

TEST(CommandLine, DoctorReportsThatTheConfigurationHasTheGuardOff) {
  const TempTree tree{{"on.yaml", "guard: on\n"}, {"off.yaml", "guard: off\n"}};
  const auto doctor = [&](const char* config) {
    return run_forestall({"doctor", "--config", tree / config}).output;
  };
  const std::string remark = "has it off; to use it, set guard: on";
  const std::string on = doctor("on.yaml");
  EXPECT_THAT(on, testing::Not(HasSubstr(remark)));
  const bool supported = std::regex_search(on, std::regex("\n +guard +in-use"));
  EXPECT_EQ(doctor("off.yaml").find(remark) != std::string::npos, supported);
}

TEST(CommandLine, DoctorReportsWhatRulesetsLackOnThisHost) {
  const TempTree tree{
      {"config.yaml",
       "rulesets:\n- name: batch\n"
       "  detectors: [{name: big, all: [{usage: {cgroups: [/no-such-cgroup], above: 64Mi, for: "
       "1s}}]}]\n"
       "  actions: [{kill: {cgroups: [/no-such-cgroup]}}]\n"}};
  const std::string text = run_forestall({"doctor", "--config", tree / "config.yaml"}).output;
  EXPECT_THAT(text, HasSubstr("ruleset 'batch': detector 'usage' matches no cgroup now."));
  EXPECT_THAT(text, HasSubstr("ruleset 'batch': action 'kill' matches no cgroup now."));
}

// Runs `command` with a standard output that is always full; the exit code and the errors.
Ran run_on_full_disk(const std::string& command) {
  const TempTree tree;
  const int status = std::system(
      ("'" + forestall_executable() + "' " + command + " >/dev/full 2>'" + (tree / "errors") + "'")
          .c_str());
  return {WEXITSTATUS(status), "", read_text(tree / "errors")};
}

TEST(CommandLine, FullStandardOutputIsAFailure) {
  for (const char* command :
       {"--version", "--help", "qos --help", "signals", "doctor", "doctor -o json", "score",
        "check-config", "plan", "rank", "completion bash"}) {
    const Ran ran = run_on_full_disk(command);
    EXPECT_EQ(ran.exit_code, 1) << command;
    EXPECT_THAT(ran.errors, HasSubstr("cannot write to standard output")) << command;
  }
}

// These write without the buffer of the standard library, two of them with the output of another
// program.
TEST(CommandLine, FullStandardOutputOfAReportOrASampleIsAFailure) {
  const TempTree tree;
  const std::string recording = tree / "recording";
  write_incident(recording, {});
  for (const char* format : {"html", "md", "png", "json"}) {
    const Ran ran = run_on_full_disk("report '" + recording + "' --format " + format);
    EXPECT_EQ(ran.exit_code, 1) << format;
    EXPECT_EQ(ran.errors, "forestall report: write standard output: No space left on device\n");
  }
  const Ran file = run_forestall({"report", recording, "--format", "png", "-fo", "/dev/full"});
  EXPECT_EQ(file.exit_code, 1);
  EXPECT_EQ(file.errors, "forestall report: write /dev/full: No space left on device\n");
  for (const char* format : {"text", "json"}) {
    const Ran ran =
        run_on_full_disk("top --once --no-agent --interval 100ms -o " + std::string(format));
    EXPECT_EQ(ran.exit_code, 1) << format;
    EXPECT_EQ(ran.errors, "forestall top: write standard output: No space left on device\n");
  }
  const Ran events = run_on_full_disk("events '" + recording + "' -o json");
  EXPECT_EQ(events.exit_code, 1);
  EXPECT_THAT(events.errors, HasSubstr("cannot write to standard output"));
}

TEST(CommandLine, UnknownFeatureIsRefusedWithTheListOfFeatures) {
  const Ran ran = run_forestall({"doctor", "--disable-feature", "magic"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("unknown feature 'magic'"));
  EXPECT_THAT(ran.errors, HasSubstr("bpf-timer"));
}

TEST(CommandLine, MissingConfigNamesTheFile) {
  const Ran ran = run_forestall({"check-config", "--config", "/nonexistent/config.yaml"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("/nonexistent/config.yaml"));
}

TEST(CommandLine, BadConfigIsRefusedAtItsPlace) {
  const TempTree tree{{"bad.yaml", "evictionHard:\n  memory.available: 100Mo\n"}};
  for (const char* command : {"check-config", "agent", "signals", "rank"}) {
    const Ran ran = run_forestall({command, "--config", tree / "bad.yaml"});
    EXPECT_EQ(ran.exit_code, 2) << command;
    EXPECT_THAT(ran.errors, HasSubstr("bad.yaml:2:21:")) << command;
  }
}

TEST(CommandLine, DoctorWithEverythingOffReportsNoGuard) {
  std::vector<std::string> arguments{"doctor"};
  for (const std::string& feature : wake_features()) {
    arguments.push_back("--disable-feature");
    arguments.push_back(feature);
  }
  const Ran ran = run_forestall(arguments);
  EXPECT_EQ(ran.exit_code, 3) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("NOTHING CAN GUARD THIS HOST"));
}

// cgroup.kill is left, which reaches every workload only on a unified hierarchy.
TEST(CommandLine, DoctorWithoutPidfdDoesNotPromiseTheWholeHost) {
  const Ran ran = run_forestall({"doctor", "--disable-feature", "pidfd"});
  if (mounts().unified.empty()) {
    EXPECT_EQ(ran.exit_code, 3) << ran.output;
    EXPECT_THAT(ran.output, HasSubstr("NOTHING CAN GUARD THIS HOST\n"));
  } else if (!mounts().v1) {
    EXPECT_THAT(ran.output, HasSubstr(" - this host can be guarded, by cgroup.kill only\n"));
  } else {
    EXPECT_THAT(ran.output, HasSubstr(" - this host can be guarded in part\n"));
    EXPECT_THAT(ran.output, HasSubstr("Without pidfd the agent can kill a workload only if "));
  }
}

TEST(CommandLine, DoctorInJsonListsEveryFeature) {
  const Ran ran = run_forestall({"doctor", "--output", "json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  for (std::size_t i = 0; i < kFeatureCount; ++i) {
    EXPECT_THAT(ran.output, HasSubstr("\"" + std::string(to_string(feature_at(i))) + "\""));
  }
}

// Each feature that is not in use has a reason, and a remedy or the statement that there is none.
TEST(CommandLine, DoctorHasAReasonAndARemedyForEachFeatureNotInUse) {
  const Ran ran = run_forestall({"doctor", "--output", "json", "--disable-feature", "pidfd"});
  v1::DoctorReport report;
  const auto read = messages::from_json(ran.output, report);
  ASSERT_TRUE(read) << read.error().text();
  ASSERT_EQ(report.features_size(), static_cast<int>(kFeatureCount));
  for (const v1::FeatureReport& each : report.features()) {
    if (each.state() == v1::FeatureReport::IN_USE) continue;
    EXPECT_NE(each.evidence(), "") << each.feature();
    EXPECT_TRUE(std::ranges::any_of(report.advice(), [&](const std::string& sentence) {
      return sentence.starts_with(each.feature() + ": ");
    })) << each.feature();
  }
  const Ran text = run_forestall({"doctor", "--disable-feature", "pidfd"});
  EXPECT_THAT(text.output, HasSubstr("  - pidfd: remove it from disableFeatures and "
                                     "--disable-feature.\n"));
}

TEST(CommandLine, DoctorReportsThatNothingMayBeKilledAndWhatChangesIt) {
  ScratchCgroup scratch;
  scratch.child("batch");
  const std::string off = "pods: {enabled: false}\n";
  const std::string rules = "workloads: [{cgroup: " + scratch.path() + "/batch, protected: ";
  const TempTree tree{{"none.yaml", off},
                      {"protected.yaml", off + rules + "true}]\n"},
                      {"some.yaml", off + rules + "false}]\n"}};
  const auto doctor = [&](const char* config) {
    return run_forestall({"doctor", "--config", tree / config}).output;
  };
  EXPECT_THAT(doctor("some.yaml"), testing::Not(HasSubstr("guards no workload")));
  const std::string all_protected = doctor("protected.yaml");
  EXPECT_THAT(all_protected, HasSubstr("guards no workload"));
  EXPECT_THAT(all_protected, HasSubstr("protected: 1."));
  EXPECT_THAT(all_protected, testing::Not(HasSubstr("NAME.service")));
  const std::string none = doctor("none.yaml");
  EXPECT_THAT(none, HasSubstr("guards no workload"));
  // As a user pastes them.
  std::string lines = none.substr(std::min(none.find("\nworkloads:"), none.size()));
  ASSERT_THAT(lines, HasSubstr("NAME.service"));
  lines.resize(lines.rfind("}\n") + 2);
  tree.write("pasted.yaml", off + lines);
  const Ran checked = run_forestall({"check-config", "--config", tree / "pasted.yaml"});
  EXPECT_EQ(checked.exit_code, 0) << checked.errors;
  EXPECT_EQ(checked.errors, "");
  EXPECT_THAT(checked.output, HasSubstr("/user.slice/user-*.slice"));
}

TEST(CommandLine, SignalsShowsTheNode) {
  const Ran ran = run_forestall({"signals"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("memory.available"));
  EXPECT_THAT(ran.output, HasSubstr("node"));
}

TEST(CommandLine, SignalsListsThresholdsWhoseSourceIsMissing) {
  const TempTree tree{{"missing.yaml", "filesystems: {nodefs: /forestall-test-missing}\n"}};
  const Ran ran = run_forestall({"signals", "--config", tree / "missing.yaml"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  for (const char* signal :
       {"nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree"}) {
    EXPECT_THAT(ran.output,
                testing::ContainsRegex(std::string(signal) +
                                       " +hard +node +unknown .*/forestall-test-missing: "));
  }
  const Ran json = run_forestall({"signals", "--config", tree / "missing.yaml", "-o", "json"});
  v1::SignalsReport report;
  const auto read = messages::from_json(json.output, report);
  ASSERT_TRUE(read) << read.error().text();
  const auto& notes = report.observation().notes();
  EXPECT_TRUE(std::ranges::any_of(notes, [](const v1::SourceNote& note) {
    return note.subject() == "imagefs.inodesFree" &&
           note.problem().starts_with("unknown: /forestall-test-missing: ");
  })) << json.output;
}

TEST(CommandLine, RankReportsThatThereAreNoWorkloads) {
  const TempTree tree{{"none.yaml", "pods: {enabled: false}\n"}};
  const Ran ran = run_forestall({"rank", "--config", tree / "none.yaml"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("no workloads"));
  EXPECT_EQ(run_forestall({"rank", "--cgroup", "relative"}).exit_code, 2);
  const Ran typo = run_forestall({"rank", "--config", tree / "none.yaml", "--cgroup", "/tpyo"});
  EXPECT_EQ(typo.exit_code, 2);
  EXPECT_THAT(typo.errors, HasSubstr("--cgroup: open cgroup /tpyo: No such file or directory"));
}

TEST(CommandLine, RankHidesEmptyWorkloadsAndTakesALimit) {
  ScratchCgroup scratch;
  const Hog first(scratch, scratch.child("first"), mib(8));
  const Hog second(scratch, scratch.child("second"), mib(4));
  scratch.child("empty");
  const TempTree tree{
      {"all.yaml", "pods: {enabled: false}\nworkloads: [{cgroup: " + scratch.path() + "/*}]\n"}};
  const auto rank = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"rank", "--config", tree / "all.yaml"});
    const Ran ran = run_forestall(more);
    EXPECT_EQ(ran.exit_code, 0) << ran.errors;
    return ran.output;
  };
  const std::string text = rank({});
  EXPECT_THAT(text, HasSubstr(scratch.path() + "/first "));
  EXPECT_THAT(text, HasSubstr(scratch.path() + "/second "));
  EXPECT_THAT(text, testing::Not(HasSubstr(scratch.path() + "/empty ")));
  EXPECT_THAT(text, testing::EndsWith("\nworkloads without processes: 1; --all shows them\n"));
  EXPECT_THAT(rank({"--all"}), HasSubstr(scratch.path() + "/empty "));
  const std::string one = rank({"-n", "1", "--all"});
  EXPECT_THAT(one, HasSubstr(scratch.path() + "/first "));
  EXPECT_THAT(one, testing::EndsWith("\nmore workloads: 2; -n shows more\n"));
  EXPECT_THAT(one, testing::Not(HasSubstr(scratch.path() + "/second ")));
  const auto json = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"-o", "json"});
    v1::RankReport report;
    EXPECT_TRUE(messages::from_json(rank(more), report));
    return report.order_size();
  };
  EXPECT_EQ(json({}), 3);
  EXPECT_EQ(json({"-n", "2"}), 2);
  EXPECT_EQ(run_forestall({"rank", "--kernel", "-n", "2"}).exit_code, 2);
}

// A workload without processes is neither the next one nor a number in the order.
TEST(CommandLine, RankNumbersAndComparesTheWorkloadsThatItShows) {
  ScratchCgroup scratch;
  const Hog first(scratch, scratch.child("first"), mib(4));
  const Hog last(scratch, scratch.child("last"), mib(8));
  scratch.child("empty");
  const TempTree tree{
      {"order.yaml", "pods: {enabled: false}\nworkloads:\n- {cgroup: " + scratch.path() +
                         "/first, memoryRequest: 64Mi, priority: 1}\n- {cgroup: " + scratch.path() +
                         "/empty, memoryRequest: 64Mi, priority: 1}\n- {cgroup: " + scratch.path() +
                         "/last, memoryRequest: 64Mi, priority: 9}\n"}};
  const Ran shown = run_forestall({"rank", "--config", tree / "order.yaml"});
  EXPECT_THAT(shown.output, testing::ContainsRegex("\n +1 .*/first .*before the next by priority\n"
                                                   " +2 .*/last "));
  const Ran all = run_forestall({"rank", "--all", "--config", tree / "order.yaml"});
  EXPECT_THAT(all.output, testing::ContainsRegex("\n +3 .*/last "));
}

// --- kubelet's settings -------------------------------------------------------------------------

constexpr const char* kKubelet =
    "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n";

TEST(CheckConfig, RefusesKubeletsFileAtItsPlace) {
  const TempTree tree{{"kubelet.yaml", std::string(kKubelet) + "evictionHard: {memory: 1Gi}\n"}};
  for (const char* command : {"check-config", "agent", "signals", "rank", "plan"}) {
    const Ran ran = run_forestall({command, "--kubelet-config", tree / "kubelet.yaml"});
    EXPECT_EQ(ran.exit_code, 2) << command;
    EXPECT_THAT(ran.errors, HasSubstr("kubelet.yaml:3:16: unsupported eviction signal 'memory'"));
  }
}

TEST(CheckConfig, RefusesFlagsByName) {
  const Ran soft = run_forestall({"check-config", "--eviction-soft", "memory.available<1Gi"});
  EXPECT_EQ(soft.exit_code, 2);
  EXPECT_THAT(soft.errors, HasSubstr("--eviction-soft: grace period must be specified"));
  const Ran pair = run_forestall({"check-config", "--eviction-hard=memory.available"});
  EXPECT_EQ(pair.exit_code, 2);
  EXPECT_THAT(pair.errors, HasSubstr("malformed pair, expect string<string"));
}

TEST(CheckConfig, MissingKubeletConfigNamesTheFile) {
  const Ran ran = run_forestall({"check-config", "--kubelet-config", "/nonexistent/k.yaml"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, HasSubstr("/nonexistent/k.yaml"));
}

// A node without pods yet.
TEST(CheckConfig, AnEmptyPodListDeclaresThePriorities) {
  const TempTree tree{{"pods.json", R"({"kind":"PodList","apiVersion":"v1","items":[]})"},
                      {"listed.yaml", "podList: pods.json\n"},
                      {"unlisted.yaml", "{}\n"}};
  const auto errors = [&](const char* config) {
    return run_forestall({"check-config", "--config", tree / config}).errors;
  };
  EXPECT_THAT(errors("listed.yaml"), testing::Not(HasSubstr("neither podList nor manifest")));
  EXPECT_THAT(errors("unlisted.yaml"), HasSubstr("neither podList nor manifest"));
}

TEST(CheckConfig, ShowsThresholdsInOrder) {
  const TempTree tree{{"kubelet.yaml", std::string(kKubelet) +
                                           "evictionHard:\n  memory.available: 1.5Gi\n"
                                           "evictionMinimumReclaim: {memory.available: 10%}\n"}};
  const Ran ran = run_forestall({"check-config", "-o", "json", "--kubelet-config",
                                 tree / "kubelet.yaml", "--eviction-soft=memory.available<15%",
                                 "--eviction-soft-grace-period", "memory.available=1m30s"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  v1::ConfigReport report;
  ASSERT_TRUE(messages::from_json(ran.output, report).ok()) << ran.output;
  ASSERT_EQ(report.thresholds_size(), 3);
  const v1::ThresholdReport& hard = report.thresholds(0);
  EXPECT_EQ(hard.signal() + " " + hard.operator_() + " " + hard.value(),
            "memory.available LessThan 1.5Gi");
  EXPECT_EQ(hard.quantity(), "1536Mi");
  EXPECT_EQ(hard.minimum_reclaim(), "10%");
  EXPECT_TRUE(hard.hard());
  EXPECT_THAT(hard.origin(), testing::EndsWith("kubelet.yaml:4:21"));
  const v1::ThresholdReport& soft = report.thresholds(1);
  EXPECT_EQ(soft.value() + " " + soft.grace(), "15% 1m30s");
  EXPECT_EQ(soft.percentage(), 15);
  EXPECT_FALSE(soft.hard());
  EXPECT_EQ(soft.origin(), "--eviction-soft");
  EXPECT_EQ(report.thresholds(2).signal(), "allocatableMemory.available");
  EXPECT_TRUE(report.thresholds(2).copied());
  EXPECT_EQ(report.backstop().signal() + " " + report.backstop().origin(),
            "memory.untilOom backstop");
}

TEST(CheckConfig, FlagsRepeatedAndEmpty) {
  const Ran repeated = run_forestall({"check-config", "--eviction-hard=nodefs.available<1Gi",
                                      "--eviction-hard", "pid.available<7%"});
  EXPECT_EQ(repeated.exit_code, 0) << repeated.errors;
  EXPECT_THAT(repeated.output, HasSubstr("nodefs.available"));
  EXPECT_THAT(repeated.output, HasSubstr("7%"));
  const Ran empty = run_forestall({"check-config", "--eviction-hard=", "-o", "json"});
  EXPECT_EQ(empty.exit_code, 0) << empty.errors;
  EXPECT_THAT(empty.output, HasSubstr("\"thresholds\": []"));
  EXPECT_THAT(empty.output, HasSubstr("\"origin\": \"backstop\""));
  const Ran negative = run_forestall({"check-config", "--eviction-max-pod-grace-period", "-1",
                                      "--kernel-memcg-notification", "-o", "json"});
  EXPECT_EQ(negative.exit_code, 0) << negative.errors;
  EXPECT_THAT(negative.output, HasSubstr("\"maxPodGraceSeconds\": -1"));
  EXPECT_THAT(negative.output, HasSubstr("\"kernelMemcgNotification\": true"));
}

// --- plan ---------------------------------------------------------------------------------------

TEST(PlanCommand, DocsExampleOfIntent) {
  const Ran ran =
      run_forestall({"plan", "--memory-capacity", "10Gi", "--reserve", "10%", "--evict-at", "95%"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("--eviction-hard=memory.available<500Mi"));
  EXPECT_THAT(ran.output, HasSubstr("--system-reserved=memory=1.5Gi"));
}

TEST(PlanCommand, DocsExampleOfAllocatable) {
  const Ran ran =
      run_forestall({"plan", "--memory-capacity=32Gi", "--cpu=16", "--storage=100Gi",
                     "--kube-reserved=cpu=1,memory=2Gi,ephemeral-storage=1Gi",
                     "--system-reserved=cpu=500m,memory=1Gi,ephemeral-storage=1Gi",
                     "--eviction-hard=memory.available<500Mi,nodefs.available<10%", "-o", "json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  internal::PlanReport report;
  ASSERT_TRUE(messages::from_json(ran.output, report).ok()) << ran.output;
  ASSERT_EQ(report.resources_size(), 3);
  EXPECT_EQ(report.resources(0).allocatable(), "14500m");
  EXPECT_EQ(report.resources(1).allocatable_rounded(), "28.5Gi");
  EXPECT_EQ(report.resources(2).allocatable_rounded(), "88Gi");
}

// check-config and plan accept the output of plan.
TEST(PlanCommand, SnippetsAreAccepted) {
  const Ran ran = run_forestall({"plan", "--memory-capacity=32Gi", "--reserve=2Gi",
                                 "--evict-at=90%", "--eviction-soft=memory.available<15%",
                                 "--eviction-soft-grace-period=memory.available=1m", "-o", "json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.errors;
  internal::PlanReport report;
  ASSERT_TRUE(messages::from_json(ran.output, report).ok()) << ran.output;
  const TempTree tree{{"kubelet.yaml", report.settings().kubelet_configuration()},
                      {"config.yaml", report.settings().forestall_configuration()}};
  const Ran kubelet = run_forestall({"check-config", "--kubelet-config", tree / "kubelet.yaml"});
  EXPECT_EQ(kubelet.exit_code, 0) << kubelet.errors;
  const Ran own = run_forestall({"check-config", "--config", tree / "config.yaml"});
  EXPECT_EQ(own.exit_code, 0) << own.errors;
  std::vector<std::string> arguments{"check-config"};
  for (const std::string& flag : report.settings().flags()) arguments.push_back(flag);
  EXPECT_EQ(run_forestall(arguments).exit_code, 0);
}

TEST(PlanCommand, Refusals) {
  const Ran sum = run_forestall({"plan", "--memory-capacity=2Gi", "--kube-reserved=memory=3Gi"});
  EXPECT_EQ(sum.exit_code, 2);
  EXPECT_THAT(sum.errors, HasSubstr("has a reservation of"));
  for (const char* evict_at : {"--evict-at=100%", "--evict-at=101%", "--evict-at=x"}) {
    EXPECT_EQ(run_forestall({"plan", "--memory-capacity=2Gi", evict_at}).exit_code, 2) << evict_at;
  }
  EXPECT_EQ(run_forestall({"plan", "--memory-capacity=2Gi", "--evict-at=90%",
                           "--eviction-hard=memory.available<1Gi"})
                .exit_code,
            2);
  EXPECT_EQ(run_forestall({"plan", "--memory-capacity=0"}).exit_code, 2);
  EXPECT_EQ(run_forestall({"plan", "--cpu=4", "--reserve=10%"}).exit_code, 2);
}

TEST(PlanCommand, ThisHost) {
  const Ran ran = run_forestall({"plan"});
  EXPECT_EQ(ran.exit_code, 0) << ran.errors;
  EXPECT_THAT(ran.output, HasSubstr("ephemeral-storage"));
  EXPECT_THAT(ran.output, HasSubstr("nothing-reserved"));
}

}  // namespace
}  // namespace forestall::test
