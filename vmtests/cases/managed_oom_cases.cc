// SPDX-License-Identifier: Apache-2.0
// The agent in systemd-oomd's place, with a real systemd as PID 1.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "clients/unit_restart.h"
#include "forestall/v1/status.pb.h"
#include "messages/json.h"
#include "support/agent_run.h"
#include "support/temp_tree.h"
#include "support/zram_swap.h"

namespace forestall::vm {
namespace {

using test::AgentRun;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The agent reads all properties again every 30 s, and an emulator is slow.
constexpr Duration kPropertyPatience = std::chrono::seconds(90);
constexpr Duration kPressurePatience = std::chrono::seconds(200);

// Standard output of a command.
std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "re");
  if (pipe == nullptr) return text;
  char buffer[4096];
  for (std::size_t read = 0; (read = fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    text.append(buffer, read);
  }
  pclose(pipe);
  return text;
}

bool runs(const std::string& command) {
  return std::system((command + " >/dev/null").c_str()) == 0;  // NOLINT(cert-env33-c)
}

class ManagedOomOfSystemd : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!clients::systemd_is_running()) {
      GTEST_SKIP() << "not applicable: PID 1 is not systemd; the guest 6.12 systemd runs this";
    }
    files_.write("oomd.conf",
                 "[OOM]\nDefaultMemoryPressureLimit=2%\nDefaultMemoryPressureDurationSec=5s\n");
  }

  [[nodiscard]] std::string config() const {
    return fmt::format(
        "evictionHard: {{}}\npods: {{enabled: false}}\n"
        "managedOOM: {{source: dbus, config: {}, killedSignal: true}}\n",
        files_ / "oomd.conf");
  }
  static v1::ManagedOomStatus status_of(const std::string& run_directory) {
    const auto ran =
        test::run_forestall({"status", "--managed", "--run-dir", run_directory, "-o", "json"});
    v1::ManagedOomStatus status;
    EXPECT_TRUE(messages::from_json(ran.output, status)) << ran.errors;
    return status;
  }
  // "<cgroup> swap" and "<cgroup> <limit>".
  static std::vector<std::string> rules_of(const v1::ManagedOomStatus& status) {
    std::vector<std::string> rules;
    for (const auto& each : status.swap()) rules.push_back(each + " swap");
    for (const auto& each : status.pressure()) {
      rules.push_back(fmt::format("{} {}", each.cgroup(), each.limit()));
    }
    return rules;
  }
  static bool wait_for(const std::function<bool()>& holds) {
    for (const auto end = SystemClock().now() + kPropertyPatience; SystemClock().now() < end;
         poll(nullptr, 0, 200)) {
      if (holds()) return true;
    }
    return holds();
  }
  // The first status that `holds` accepts, or the last one.
  static v1::ManagedOomStatus wait_status(
      const std::string& run_directory,
      const std::function<bool(const v1::ManagedOomStatus&)>& holds) {
    v1::ManagedOomStatus status;
    static_cast<void>(wait_for([&] {
      status = status_of(run_directory);
      return holds(status);
    }));
    return status;
  }
  static v1::ManagedOomStatus wait_status(
      AgentRun& agent, const std::function<bool(const v1::ManagedOomStatus&)>& holds) {
    return wait_status(agent.directory() / "", holds);
  }
  static std::vector<std::string> wait_rules(const std::string& run_directory,
                                             const std::vector<std::string>& wanted) {
    return rules_of(
        wait_status(run_directory, [&](const auto& status) { return rules_of(status) == wanted; }));
  }
  static std::vector<std::string> wait_rules(AgentRun& agent,
                                             const std::vector<std::string>& wanted) {
    return wait_rules(agent.directory() / "", wanted);
  }

  test::TempTree files_;
};

TEST_F(ManagedOomOfSystemd, FollowsPropertiesThatAreSetChangedAndRemoved) {
  ASSERT_TRUE(
      runs("systemd-run -q --unit=first --slice=a.slice -p ManagedOOMMemoryPressure=kill "
           "-p ManagedOOMMemoryPressureLimit=40% sleep 100000"));
  AgentRun agent(config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  EXPECT_THAT(wait_rules(agent, {"/a.slice/first.service 4000"}),
              ElementsAre("/a.slice/first.service 4000"));
  // systemd signals none of the changes of a property.
  ASSERT_TRUE(
      runs("systemctl set-property --runtime first.service "
           "ManagedOOMMemoryPressureLimit=50%"));
  EXPECT_THAT(wait_rules(agent, {"/a.slice/first.service 5000"}),
              ElementsAre("/a.slice/first.service 5000"));

  ASSERT_TRUE(runs("systemctl daemon-reexec"));
  ASSERT_TRUE(
      runs("systemd-run -q --unit=second --slice=a.slice -p ManagedOOMSwap=kill "
           "sleep 100000"));
  EXPECT_THAT(wait_rules(agent, {"/a.slice/second.service swap", "/a.slice/first.service 5000"}),
              ElementsAre("/a.slice/second.service swap", "/a.slice/first.service 5000"));
  EXPECT_THAT(
      wait_status(agent, [](const auto& status) { return status.problem().empty(); }).problem(),
      IsEmpty());

  ASSERT_TRUE(runs("systemctl set-property --runtime first.service ManagedOOMMemoryPressure=auto"));
  ASSERT_TRUE(runs("systemctl stop second.service"));
  EXPECT_THAT(wait_rules(agent, {}), IsEmpty());
  ASSERT_TRUE(runs("systemctl stop first.service"));
}

TEST_F(ManagedOomOfSystemd, AKillByPressureIsAnOomKillForSystemd) {
  const test::ZramSwap swap(mib(256));
  AgentRun agent(config());
  ASSERT_FALSE(agent.failure()) << agent.failure()->text();
  const auto owned = wait_status(agent, [](const auto& status) {
    return status.has_killed_signal_problem() && status.killed_signal_problem().empty();
  });
  EXPECT_EQ(owned.killed_signal_problem(), "");
  const std::string signals = files_ / "signals";
  ASSERT_TRUE(runs("systemd-run -q --unit=monitor -p StandardOutput=file:" + signals +
                   " busctl monitor --json=short --match=interface=org.freedesktop.oom1.Manager"));

  // Shared memory, because files of this guest cannot be reclaimed.
  ASSERT_TRUE(
      runs("systemd-run -q --unit=presser --slice=b.slice -p ManagedOOMMemoryPressure=kill "
           "-p MemoryHigh=16M sh -c 'head -c 48m /dev/urandom >/tmp/presser; for i in 1 2 3 4; do "
           "(while :; do cat /tmp/presser >/dev/null; done) & done; wait'"));
  const auto read = wait_status(agent, [](const auto& status) {
    return status.readings_size() == 1 && status.readings(0).avg10() > 0;
  });
  EXPECT_THAT(rules_of(read), ElementsAre("/b.slice/presser.service 200"));
  ASSERT_EQ(read.readings_size(), 1);
  EXPECT_GT(read.readings(0).usage(), 0);
  EXPECT_GT(read.swap_total(), 0);
  const auto shown =
      test::run_forestall({"status", "--managed", "--run-dir", agent.directory() / ""});
  EXPECT_THAT(shown.output, HasSubstr("Watched for memory pressure"));

  const auto kill = agent.wait_kill(kPressurePatience);
  ASSERT_TRUE(kill);
  EXPECT_THAT(kill->decision().ShortDebugString(),
              HasSubstr("ManagedOOMMemoryPressure /b.slice/presser.service"));
  EXPECT_TRUE(wait_for(
      [] { return output_of("systemctl show presser.service -P ActiveState") == "failed\n"; }));
  EXPECT_EQ(output_of("systemctl show presser.service -P Result"), "oom-kill\n");
  EXPECT_TRUE(wait_for([&] {
    return test::read_text(signals).find("[\"/b.slice/presser.service\",\"memory-pressure\"]") !=
           std::string::npos;
  })) << test::read_text(signals);
  EXPECT_TRUE(runs(
      "systemctl reset-failed presser.service; systemctl stop monitor.service; rm /tmp/presser"));
}

// The settings of systemd 252's own unit that concern a program.
constexpr const char* kUnitOfSystemd = R"([Unit]
DefaultDependencies=no
Conflicts=shutdown.target
Requires=systemd-oomd.socket
After=systemd-oomd.socket
[Service]
AmbientCapabilities=CAP_KILL CAP_DAC_OVERRIDE
BusName=org.freedesktop.oom1
CapabilityBoundingSet=CAP_KILL CAP_DAC_OVERRIDE
ExecStart=/lib/systemd/systemd-oomd
IPAddressDeny=any
LockPersonality=yes
MemoryDenyWriteExecute=yes
NoNewPrivileges=yes
OOMScoreAdjust=-900
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectSystem=strict
Restart=on-failure
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service
Type=notify
User=systemd-oom
WatchdogSec=3min
)";
constexpr const char* kSocketOfSystemd =
    "[Unit]\nDefaultDependencies=no\n"
    "[Socket]\nListenStream=/run/systemd/oom/io.system.ManagedOOM\nSocketMode=0666\n";

// The agent as systemd-oomd.service, by the packaged drop-in.
class ManagedOomAsUnit : public ManagedOomOfSystemd {
 protected:
  static constexpr const char* kFolder = "/run/forestall-as-unit";
  static constexpr const char* kRunDirectory = "/run/forestall/";

  static void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
  }
  static std::string command() {
    return fmt::format("{} agent --config {}/config.yaml", test::forestall_executable(), kFolder);
  }

  void SetUp() override {
    ManagedOomOfSystemd::SetUp();
    if (IsSkipped()) return;
    const std::string folder = kFolder;
    write(folder + "/oomd.conf",
          "[OOM]\nDefaultMemoryPressureLimit=2%\nDefaultMemoryPressureDurationSec=5s\n");
    write(folder + "/config.yaml",
          fmt::format("evictionHard: {{}}\npods: {{enabled: false}}\nuntilOom: {{available: 0%}}\n"
                      "managedOOM: {{source: auto, config: {}/oomd.conf}}\n",
                      folder));
    std::string drop_in = test::read_text("/usr/share/forestall/systemd-oomd.conf");
    const std::string packaged = "/usr/sbin/forestall agent";
    const auto at = drop_in.find(packaged);
    ASSERT_NE(at, std::string::npos);
    drop_in.replace(at, packaged.size(), command());
    write("/run/systemd/system/systemd-oomd.service", kUnitOfSystemd);
    write("/run/systemd/system/systemd-oomd.socket", kSocketOfSystemd);
    write("/run/systemd/system/systemd-oomd.service.d/forestall.conf", drop_in);
    write("/run/systemd/system/systemd-oomd.service.d/log.conf",
          "[Service]\nStandardError=file:" + folder + "/log\n");
    ASSERT_TRUE(runs("systemctl daemon-reload"));
    ASSERT_TRUE(runs("systemctl start systemd-oomd.service"))
        << output_of("systemctl status systemd-oomd.service; cat " + folder + "/log");
  }
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_TRUE(runs("systemctl stop systemd-oomd.service systemd-oomd.socket"));
    EXPECT_EQ(output_of("systemctl show systemd-oomd.service -P Result"), "success\n");
    std::filesystem::remove_all("/run/systemd/system/systemd-oomd.service.d");
    std::filesystem::remove("/run/systemd/system/systemd-oomd.service");
    std::filesystem::remove("/run/systemd/system/systemd-oomd.socket");
    EXPECT_TRUE(runs("systemctl daemon-reload"));
    std::filesystem::remove_all(kFolder);
  }
};

// An agent of another unit reads the same properties over D-Bus, at the same time.
TEST_F(ManagedOomAsUnit, HasTheRulesOfDBusAndFollowsPid1) {
  AgentRun other(config() + "dryRun: true\n");
  ASSERT_FALSE(other.failure()) << other.failure()->text();
  const auto expect_rules = [&](const std::vector<std::string>& wanted) {
    EXPECT_EQ(wait_rules(kRunDirectory, wanted), wanted);
    EXPECT_EQ(wait_rules(other, wanted), wanted);
  };
  const auto current = [](const auto& status) {
    return status.has_read_ago_ns() && status.problem().empty();
  };
  const auto status = wait_status(kRunDirectory, current);
  EXPECT_EQ(status.source(), "varlink");
  EXPECT_EQ(status.problem(), "");
  EXPECT_EQ(wait_status(other, current).source(), "dbus");
  EXPECT_THAT(
      test::run_forestall({"doctor", "--config", std::string(kFolder) + "/config.yaml"}).output,
      HasSubstr("by PID 1's varlink socket"));

  ASSERT_TRUE(
      runs("systemd-run -q --unit=first --slice=a.slice -p ManagedOOMMemoryPressure=kill "
           "-p ManagedOOMMemoryPressureLimit=40% sleep 100000"));
  expect_rules({"/a.slice/first.service 4000"});
  ASSERT_TRUE(
      runs("systemctl set-property --runtime first.service ManagedOOMMemoryPressureLimit=50%"));
  expect_rules({"/a.slice/first.service 5000"});

  ASSERT_TRUE(runs("systemctl daemon-reexec"));
  ASSERT_TRUE(
      runs("systemd-run -q --unit=second --slice=a.slice -p ManagedOOMSwap=kill "
           "-p ManagedOOMMemoryPressure=kill sleep 100000"));
  expect_rules({"/a.slice/second.service swap", "/a.slice/first.service 5000",
                "/a.slice/second.service 200"});
  EXPECT_EQ(wait_status(kRunDirectory, current).problem(), "");

  ASSERT_TRUE(runs("systemctl set-property --runtime first.service ManagedOOMMemoryPressure=auto"));
  ASSERT_TRUE(runs("systemctl stop second.service"));
  expect_rules({});
  ASSERT_TRUE(runs("systemctl stop first.service"));
}

TEST_F(ManagedOomAsUnit, KillsByPressure) {
  const test::ZramSwap swap(mib(256));
  ASSERT_TRUE(
      runs("systemd-run -q --unit=presser --slice=b.slice -p ManagedOOMMemoryPressure=kill "
           "-p MemoryHigh=16M sh -c 'head -c 48m /dev/urandom >/tmp/presser; for i in 1 2 3 4; do "
           "(while :; do cat /tmp/presser >/dev/null; done) & done; wait'"));
  const auto end = SystemClock().now() + kPressurePatience;
  const auto state = [] { return output_of("systemctl show presser.service -P ActiveState"); };
  while (state() != "failed\n" && SystemClock().now() < end) poll(nullptr, 0, 200);
  EXPECT_EQ(output_of("systemctl show presser.service -P Result"), "oom-kill\n");
  EXPECT_THAT(test::read_text(std::string(kFolder) + "/log"),
              HasSubstr("ManagedOOMMemoryPressure /b.slice/presser.service"));
  EXPECT_TRUE(runs("systemctl reset-failed presser.service; rm /tmp/presser"));
}

}  // namespace
}  // namespace forestall::vm
