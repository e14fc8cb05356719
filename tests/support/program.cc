// SPDX-License-Identifier: Apache-2.0
#include "support/program.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "support/temp_tree.h"

namespace forestall::test {

int run_program(std::vector<std::string> command, int out, int err) {
  constexpr int kNotExecuted = 127;
  if (out >= 0 && dup2(out, STDOUT_FILENO) < 0) return kNotExecuted;
  if (err >= 0 && dup2(err, STDERR_FILENO) < 0) return kNotExecuted;
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  return kNotExecuted;
}

double cpu_ms_of(pid_t pid) {
  double ns = 0;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    ns += std::strtod(read_text(task.path() / "schedstat").c_str(), nullptr);
  }
  return ns / 1e6;
}

}  // namespace forestall::test
