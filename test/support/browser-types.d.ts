// The names of the browser that playwright-core's types mention; the project's own code, which
// never runs in a browser, keeps to Node's.
interface Node {}
interface HTMLElement extends Node {}
interface SVGElement extends Node {}
interface HTMLElementTagNameMap {}
