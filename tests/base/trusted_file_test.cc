// SPDX-License-Identifier: Apache-2.0
// Files and directories that others than root can write are refused. As root, since only root can
// give files away.
#include "base/trusted_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace forestall {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uid_t kOther = 12345;

class TrustedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0)
      GTEST_SKIP() << "not applicable: only root can give files away; runs as root, as in CI and "
                      "in the VM tests";
    char name[] = "/tmp/forestall-trusted-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = name;
    std::filesystem::create_directory(root_ + "/d");
    file_ = root_ + "/d/config.yaml";
    std::ofstream(file_) << "x";
    mode(file_, 0644);
    mode(root_ + "/d", 0755);
  }
  void TearDown() override {
    if (!root_.empty()) std::filesystem::remove_all(root_);
  }
  static void mode(const std::string& path, mode_t bits) {
    ASSERT_EQ(::chmod(path.c_str(), bits), 0);
  }
  static void give(const std::string& path) { ASSERT_EQ(::chown(path.c_str(), kOther, kOther), 0); }
  static std::string problem(const std::string& path) {
    const auto opened = open_trusted(path);
    return opened ? "" : opened.error().message;
  }

  std::string root_;
  std::string file_;
};

TEST_F(TrustedFileTest, AcceptsAFileOfRoot) {
  EXPECT_EQ(problem(file_), "");
  mode(file_, 0400);
  EXPECT_EQ(problem(file_), "");
}

TEST_F(TrustedFileTest, RefusesAFileThatOthersCanWrite) {
  for (const mode_t bits : {0664U, 0646U, 0666U}) {
    mode(file_, bits);
    EXPECT_THAT(problem(file_),
                AllOf(HasSubstr("file " + file_ + " is owned by uid 0 with mode 06"),
                      HasSubstr("run `chmod go-w " + file_ + "`")));
  }
}

TEST_F(TrustedFileTest, RefusesAFileOfAnotherUser) {
  give(file_);
  EXPECT_THAT(problem(file_), AllOf(HasSubstr("is owned by uid 12345 with mode 0644"),
                                    HasSubstr("run `chown root " + file_ + "`")));
}

TEST_F(TrustedFileTest, RefusesADirectoryInWhichOthersCanReplaceTheFile) {
  mode(root_ + "/d", 0775);
  EXPECT_THAT(problem(file_),
              HasSubstr("directory " + root_ + "/d is owned by uid 0 with mode 0775"));
  mode(root_ + "/d", 0755);
  give(root_);
  EXPECT_THAT(problem(file_), HasSubstr("directory " + root_ + " is owned by uid 12345"));
}

// Others cannot replace a file of root in such a directory; /tmp is one.
TEST_F(TrustedFileTest, AcceptsADirectoryWithTheStickyBit) {
  mode(root_ + "/d", 01777);
  EXPECT_EQ(problem(file_), "");
}

// The link could be changed to lead to any other file of root.
TEST_F(TrustedFileTest, ChecksTheDirectoriesOfALinkAndOfItsTarget) {
  std::filesystem::create_directory(root_ + "/e");
  const std::string link = root_ + "/e/link.yaml";
  std::filesystem::create_symlink("../d/config.yaml", link);
  EXPECT_EQ(problem(link), "");
  mode(root_ + "/e", 0777);
  EXPECT_THAT(problem(link), HasSubstr("directory " + root_ + "/e "));
  mode(root_ + "/e", 0755);
  mode(root_ + "/d", 0777);
  EXPECT_THAT(problem(link), HasSubstr("directory " + root_ + "/d "));
}

// first -> middle/second -> last/config.yaml: the owner of `middle` decides what is opened.
TEST_F(TrustedFileTest, ChecksTheDirectoriesOfALinkToALink) {
  for (const char* each : {"/e", "/middle"}) std::filesystem::create_directory(root_ + each);
  std::filesystem::create_symlink("../d/config.yaml", root_ + "/middle/second");
  std::filesystem::create_symlink(root_ + "/middle/second", root_ + "/e/first");
  EXPECT_EQ(problem(root_ + "/e/first"), "");
  mode(root_ + "/middle", 0777);
  EXPECT_THAT(problem(root_ + "/e/first"), HasSubstr("directory " + root_ + "/middle "));
  mode(root_ + "/middle", 0755);
  give(root_ + "/middle");
  EXPECT_THAT(problem(root_ + "/e/first"), HasSubstr("directory " + root_ + "/middle "));
}

TEST_F(TrustedFileTest, ChecksADirectoryThatALinkedDirectoryIsReachedThrough) {
  std::filesystem::create_directories(root_ + "/middle/inner");
  std::filesystem::create_directory_symlink(root_ + "/d", root_ + "/middle/to_d");
  std::filesystem::create_directory_symlink("middle/inner/../to_d", root_ + "/way");
  EXPECT_EQ(problem(root_ + "/way/config.yaml"), "");
  mode(root_ + "/middle", 0777);
  EXPECT_THAT(problem(root_ + "/way/config.yaml"), HasSubstr("directory " + root_ + "/middle "));
}

// In a directory with the sticky bit a user can replace its own link.
TEST_F(TrustedFileTest, RefusesALinkOfAnotherUser) {
  mode(root_ + "/d", 01777);
  const std::string link = root_ + "/d/link.yaml";
  std::filesystem::create_symlink("config.yaml", link);
  EXPECT_EQ(problem(link), "");
  ASSERT_EQ(::lchown(link.c_str(), kOther, kOther), 0);
  EXPECT_THAT(problem(link), AllOf(HasSubstr("link " + link + " is owned by uid 12345"),
                                   HasSubstr("run `chown -h root " + link + "`")));
}

TEST_F(TrustedFileTest, ChecksTheInterpretersOfAScript) {
  const auto program = [&](const std::string& name, const std::string& first_line) {
    std::ofstream(root_ + name) << first_line << "\n";
    mode(root_ + name, 0755);
  };
  const auto refusal = [&] {
    const auto opened = open_trusted_program(root_ + "/d/script");
    return opened ? "" : opened.error().message;
  };
  std::filesystem::create_directory(root_ + "/bin");
  program("/bin/real", "ELF");
  program("/bin/inner", "#! \t" + root_ + "/bin/real -x");
  program("/d/script", "#!" + root_ + "/bin/inner");
  EXPECT_EQ(refusal(), "");
  mode(root_ + "/bin/real", 0775);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("interpreter of " + root_ + "/d/script: file " + root_ +
                                         "/bin/real is owned by"),
                               HasSubstr("mode 0775")));
  mode(root_ + "/bin/real", 0755);
  mode(root_ + "/bin", 0777);
  EXPECT_THAT(refusal(), HasSubstr("directory " + root_ + "/bin "));
  mode(root_ + "/bin", 0755);
  program("/bin/inner", "#!real");
  EXPECT_THAT(refusal(), HasSubstr("interpreter real, which is not an absolute path"));
  program("/bin/inner", "#!" + root_ + "/bin/inner");
  EXPECT_THAT(refusal(), HasSubstr("interpreters of"));
  program("/bin/inner", "#! \t");
  EXPECT_THAT(refusal(), HasSubstr("names no interpreter"));
}

TEST_F(TrustedFileTest, AProgramIsAFileThatCanBeExecuted) {
  EXPECT_THAT(open_trusted_program(file_).error().message, HasSubstr("run `chmod +x"));
  EXPECT_THAT(open_trusted_program(root_).error().message, HasSubstr("is not a regular file"));
}

TEST_F(TrustedFileTest, AcceptsTheDescriptorOfAPipe) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(problem("/dev/fd/" + std::to_string(ends[0])), "");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(TrustedFileTest, ResolvesARelativePath) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(root_ + "/d");
  EXPECT_EQ(problem("config.yaml"), "");
  mode(root_ + "/d", 0777);
  EXPECT_THAT(problem("config.yaml"), HasSubstr("directory " + root_ + "/d "));
  std::filesystem::current_path(before);
}

TEST_F(TrustedFileTest, ReportsAMissingFile) {
  EXPECT_THAT(problem(root_ + "/none"), HasSubstr("open"));
}

}  // namespace
}  // namespace forestall
