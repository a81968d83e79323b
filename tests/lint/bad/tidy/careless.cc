#include <string>
#include <utility>

std::string Careless(std::string text) {
  std::string other = std::move(text);
  return text + other;
}
