// SPDX-License-Identifier: Apache-2.0
// managedOOM in a configuration, and systemd's files. tests/data/config/refused.txt has its errors.
#include "intake/managed_oom_section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "intake/config_file.h"
#include "intake/oomd_conf_files.h"
#include "support/temp_tree.h"

namespace forestall::intake {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Result<LoadedConfig> load_managed(const std::string& own, const std::string& conf) {
  return load_config({"config.yaml", "", {}}, [&](const std::string& path) {
    if (path == "config.yaml") return Result<std::string>(own);
    return path == "/oomd.conf" ? Result<std::string>(conf) : Result<std::string>(Error{2, path});
  });
}

TEST(ManagedOomSection, IsOffByDefault) {
  EXPECT_FALSE(load_managed("dryRun: false\n", "")->managed_oom);
  EXPECT_FALSE(load_managed("managedOOM: {source: \"off\"}\n", "")->managed_oom);
  const auto unused = load_managed("managedOOM: {source: \"off\", config: /oomd.conf}\n", "");
  EXPECT_THAT(unused->warnings, testing::Contains(HasSubstr("config.yaml:1:29: has no effect")));
  const auto silent = load_managed("managedOOM: {source: \"off\", killedSignal: true}\n", "");
  EXPECT_FALSE(silent->killed_signal);
  EXPECT_THAT(silent->warnings, testing::Contains(HasSubstr("config.yaml:1:29: has no effect")));
}

TEST(ManagedOomSection, ReadsTheNamedFile) {
  const auto loaded = load_managed("managedOOM: {source: dbus, config: /oomd.conf}\n",
                                   "[OOM]\nSwapUsedLimit=80%\n");
  ASSERT_TRUE(loaded) << loaded.error().text();
  ASSERT_TRUE(loaded->managed_oom);
  EXPECT_EQ(loaded->managed_oom->swap_used_limit, 8000);
  EXPECT_THAT(loaded->files, ElementsAre("config.yaml", "/oomd.conf"));
  EXPECT_FALSE(loaded->killed_signal);
  EXPECT_TRUE(loaded->managed_oom_by_dbus);
  const auto by_unit = load_managed("managedOOM: {source: auto, config: /oomd.conf}\n", "");
  ASSERT_TRUE(by_unit->managed_oom);
  EXPECT_FALSE(by_unit->managed_oom_by_dbus);
  const auto signals =
      load_managed("managedOOM: {source: dbus, config: /oomd.conf, killedSignal: true}\n", "");
  EXPECT_TRUE(signals->killed_signal);
}

TEST(ManagedOomSection, AFileThatCannotBeReadIsRefusedWithItsPlace) {
  const auto missing = load_managed("managedOOM: {source: dbus, config: /gone}\n", "");
  EXPECT_THAT(missing.error().text(),
              HasSubstr("config.yaml:1:36: 'managedOOM.config' cannot be read"));
  const auto bad = load_managed("managedOOM: {source: dbus, config: /oomd.conf}\n", "[OOM\n");
  EXPECT_THAT(bad.error().text(), HasSubstr("/oomd.conf:1:1: '[OOM' is no section header"));
}

class OomdConfFiles : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) { folder_.write(path, text); }
  Result<rulesets::OomdConf> read() {
    files_.clear();
    return read_oomd_conf_files({folder_ / "etc", folder_ / "run", folder_ / "usr"}, read_text_file,
                                files_, findings_);
  }

  test::TempTree folder_;
  std::vector<std::string> files_;
  text::Findings findings_;
};

TEST_F(OomdConfFiles, WithoutFilesAreTheDefaultsOfSystemd) {
  EXPECT_EQ(*read(), rulesets::OomdConf());
  EXPECT_THAT(files_, IsEmpty());
}

TEST_F(OomdConfFiles, TheFirstMainFileCountsAndAllDropInsByName) {
  write("run/oomd.conf", "[OOM]\nSwapUsedLimit=10%\n");
  write("usr/oomd.conf", "[OOM]\nSwapUsedLimit=20%\nDefaultMemoryPressureLimit=20%\n");
  write("usr/oomd.conf.d/20-b.conf", "[OOM]\nDefaultMemoryPressureLimit=40%\n");
  write("etc/oomd.conf.d/10-a.conf",
        "[OOM]\nDefaultMemoryPressureLimit=30%\nDefaultMemoryPressureDurationSec=5s\n");
  write("etc/oomd.conf.d/note.txt", "[OOM]\nSwapUsedLimit=1%\n");
  const auto conf = read();
  ASSERT_TRUE(conf) << conf.error().text();
  EXPECT_EQ(conf->swap_used_limit, 1000);
  EXPECT_EQ(conf->pressure_limit, 4000);
  EXPECT_EQ(conf->pressure_duration, 5s);
  EXPECT_THAT(files_, ElementsAre(folder_ / "run/oomd.conf", folder_ / "etc/oomd.conf.d/10-a.conf",
                                  folder_ / "usr/oomd.conf.d/20-b.conf"));
}

TEST_F(OomdConfFiles, ADropInHidesThoseOfItsName) {
  write("usr/oomd.conf.d/10-a.conf", "[OOM]\nSwapUsedLimit=20%\n");
  write("usr/oomd.conf.d/20-b.conf", "[OOM]\nDefaultMemoryPressureLimit=40%\n");
  write("etc/oomd.conf.d/10-a.conf", "");
  std::filesystem::create_symlink("/dev/null", folder_ / "etc/oomd.conf.d/20-b.conf");
  EXPECT_EQ(*read(), rulesets::OomdConf());
}

TEST_F(OomdConfFiles, AFileThatCannotBeReadIsAnError) {
  write("etc/oomd.conf/file", "");
  EXPECT_FALSE(read());
  std::filesystem::remove_all(folder_ / "etc/oomd.conf");
  std::filesystem::create_symlink(folder_ / "gone", folder_ / "etc/oomd.conf");
  EXPECT_FALSE(read());
  std::filesystem::remove(folder_ / "etc/oomd.conf");
  write("run/oomd.conf.d", "a file");
  EXPECT_FALSE(read());
}

}  // namespace
}  // namespace forestall::intake
