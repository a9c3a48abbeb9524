#include "report/style.h"

namespace crumb::report {

std::string_view style() {
  return R"css(
:root{color-scheme:light dark;--page:#fff;--card:#f5f6f8;--text:#1b1f24;--soft:#57606a;--line:#d0d7de;--link:#0550ae;
--s0:#0b5cad;--s1:#b3390e;--s2:#1a7340;--s3:#7b3aa8;--s4:#8a5a00;--s5:#475569}
@media (prefers-color-scheme:dark){:root{--page:#14171c;--card:#1e232b;--text:#e7eaee;--soft:#a4adb8;--line:#3a424d;
--link:#8ab8ff;--s0:#6cb0ff;--s1:#ff9b73;--s2:#63d18a;--s3:#cf9bff;--s4:#e3b341;--s5:#a9b6c8}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--text);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
.skip{position:absolute;left:-999px;background:var(--page);color:var(--link);padding:.5rem 1rem}
.skip:focus{left:.5rem;top:.5rem;z-index:1}
header,main,footer,nav{max-width:72rem;margin:0 auto;padding:0 1rem}
header{padding-top:1.5rem}
h1{font-size:1.5rem;line-height:1.25;margin:0 0 .5rem;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2.25rem 0 .5rem;border-bottom:1px solid var(--line);padding-bottom:.25rem;overflow-wrap:anywhere}
h3{font-size:1rem;margin:1rem 0 .25rem;overflow-wrap:anywhere}
p{margin:.4rem 0;max-width:75ch;overflow-wrap:anywhere}
.soft{color:var(--soft);font-size:.9rem}
.said{font-size:1.1rem}
a{color:var(--link)}
nav ul{list-style:none;padding:0;margin:.75rem 0 0;display:flex;flex-wrap:wrap;gap:.1rem 1rem}
nav a{display:inline-block;padding:.25rem 0}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(15rem,100%),1fr));gap:.6rem;margin:.75rem 0;padding:0}
.facts div{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.5rem .75rem}
.facts dt{color:var(--soft);font-size:.85rem;overflow-wrap:anywhere}
.facts dd{margin:0;overflow-wrap:anywhere}
.facts .value{font-size:1.15rem;font-weight:600;font-variant-numeric:tabular-nums}
.facts .soft{font-size:.85rem}
.notes li{overflow-wrap:anywhere}
.wide{overflow-x:auto;border:1px solid var(--line);border-radius:6px}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);padding:.5rem .75rem;font-size:.9rem}
th,td{padding:.3rem .75rem;text-align:left;vertical-align:top;border-top:1px solid var(--line)}
thead th{background:var(--card);white-space:nowrap;vertical-align:bottom}
tbody th{font-weight:400;min-width:9rem;max-width:24rem;overflow-wrap:break-word}
td{max-width:22rem;overflow-wrap:break-word;min-width:7rem}
td.n{min-width:3rem}td.long{min-width:22rem}
.n{text-align:right;white-space:nowrap}
th button{font:inherit;font-weight:600;color:inherit;background:none;border:0;padding:.2rem 0;min-height:1.75rem;cursor:pointer;
text-align:inherit}
th button::after{content:" \2195";color:var(--soft)}
th[aria-sort=ascending] button::after{content:" \2191"}
th[aria-sort=descending] button::after{content:" \2193"}
.chart{display:block;width:100%;max-width:45rem;height:auto;margin:.5rem 0}
.chart text{font:13px system-ui,sans-serif;fill:var(--text)}
.chart .tick{fill:var(--soft)}
.chart .name{stroke:var(--page);stroke-width:4;stroke-linejoin:round;paint-order:stroke}
.chart path{fill:none}
.grid{stroke:var(--line)}.axis{stroke:var(--soft)}.level{stroke:var(--soft);stroke-dasharray:6 4}.front{stroke:var(--soft);stroke-width:1.5}
.whisker{stroke-width:1.5}
.s0{stroke:var(--s0);fill:var(--s0)}.s1{stroke:var(--s1);fill:var(--s1)}.s2{stroke:var(--s2);fill:var(--s2)}
.s3{stroke:var(--s3);fill:var(--s3)}.s4{stroke:var(--s4);fill:var(--s4)}.s5{stroke:var(--s5);fill:var(--s5)}
.chart .mark.s0{fill:var(--s0)}.chart .mark.s1{fill:var(--s1)}.chart .mark.s2{fill:var(--s2)}
.chart .mark.s3{fill:var(--s3)}.chart .mark.s4{fill:var(--s4)}.chart .mark.s5{fill:var(--s5)}
.chart .mark.hollow{fill:var(--page)}
.mark{stroke-width:1.5}.chart .curve{stroke-width:1.75;stroke-linejoin:round}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;padding:0;margin:.25rem 0 1rem;font-size:.9rem}
.legend svg{width:1em;height:1em;margin-right:.4em;vertical-align:-.1em}
.legend li{overflow-wrap:anywhere}
.layers,.samples{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(17rem,100%),1fr));gap:.75rem;padding:0;list-style:none}
.layers>li,.samples>li{border:1px solid var(--line);border-radius:6px;padding:.5rem .75rem;min-width:0}
.layers h3,.samples h3{margin:0;font-size:.95rem}
.layers figure{margin:.4rem 0 0}
figcaption{color:var(--soft);font-size:.8rem;display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 .5rem;overflow-wrap:anywhere}
.bars{display:block;width:100%;height:2.5rem;border-bottom:1px solid var(--soft)}
.bars path{fill:var(--s0)}
.values .bars path{fill:var(--s5)}
.pictures{display:flex;flex-wrap:wrap;gap:.5rem;margin:.4rem 0}
.pictures figure{margin:0}
.pictures img{display:block;width:6.5rem;height:auto;image-rendering:pixelated;background:#808080;border:1px solid var(--line)}
.pictures figcaption{max-width:6.5rem}
.samples dl{display:grid;grid-template-columns:auto 1fr;gap:0 .75rem;margin:.25rem 0;font-size:.9rem}
.samples dt{color:var(--soft)}
.samples dd{margin:0;overflow-wrap:anywhere}
blockquote,pre{margin:.4rem 0;background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.5rem .75rem;font-size:.9rem}
blockquote{white-space:pre-wrap;overflow-wrap:anywhere;max-height:14rem;overflow:auto}
pre{overflow-x:auto;font-family:ui-monospace,Menlo,Consolas,monospace}
footer{color:var(--soft);font-size:.85rem;padding-bottom:2rem;margin-top:2rem}
@media print{:root{color-scheme:light;--page:#fff;--card:#fff;--text:#000;--soft:#333;--line:#999;--link:#000;
--s0:#0b5cad;--s1:#b3390e;--s2:#1a7340;--s3:#7b3aa8;--s4:#8a5a00;--s5:#475569}
body{font-size:10pt}nav,.skip,.hint{display:none}th button::after{content:""!important}
.wide{overflow:visible;border:0}table{font-size:7.5pt}th,td{padding:.15rem .35rem;min-width:0!important}
thead th{white-space:normal}pre,blockquote{white-space:pre-wrap;overflow-wrap:anywhere;max-height:none}
tr,.facts div,.layers>li,.samples>li,.chart{break-inside:avoid}h2,h3{break-after:avoid}
.facts,.layers{grid-template-columns:repeat(3,1fr)}
.bars path,.chart path,.legend path{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
)css";
}

std::string_view script() {
  return R"js(
document.addEventListener('click',function(event){
var button=event.target.closest&&event.target.closest('th button');if(!button)return;
var head=button.parentNode,table=head.closest('table'),body=table.tBodies[0],at=head.cellIndex;
var down=head.getAttribute('aria-sort')==='ascending'||(!head.hasAttribute('aria-sort')&&head.className==='n');
var key=function(row){var cell=row.cells[at],value=cell.getAttribute('data-v');
if(cell.className!=='n')return cell.textContent;var number=parseFloat(value===null?cell.textContent:value);
return number!==number?null:number};
var rows=Array.prototype.map.call(body.rows,function(row,i){return{row:row,key:key(row),i:i}});
rows.sort(function(a,b){if(a.key===null||b.key===null)return a.key===b.key?a.i-b.i:a.key===null?1:-1;
var order=typeof a.key==='number'&&typeof b.key==='number'?a.key-b.key:String(a.key).localeCompare(String(b.key),undefined,{numeric:true});
return(down?-order:order)||a.i-b.i});
rows.forEach(function(one){body.appendChild(one.row)});
Array.prototype.forEach.call(head.parentNode.cells,function(cell){cell.removeAttribute('aria-sort')});
head.setAttribute('aria-sort',down?'descending':'ascending')});
)js";
}

}  // namespace crumb::report
